package queue

import (
	"container/list"
	"time"
)

// namespaces contains the waiting keys of one priority, in a queue for each namespace, and serves the namespaces in
// turn. Keys of cluster-scoped objects are in one queue, unless Config.OnBehalfOf names a namespace. A namespace
// without keys takes no memory.
type namespaces struct {
	byName map[string]*namespace
	turns  list.List // of *namespace, those with keys
	len    int
}

// The keys are in the order of their requests.
type namespace struct {
	items    list.List // of *item
	elements map[*item]*list.Element
	turn     *list.Element
}

// A namespace that had no keys is served after all others.
func (n *namespaces) push(it *item) {
	ns := n.byName[it.namespace]
	if ns == nil {
		ns = &namespace{elements: map[*item]*list.Element{}}
		ns.turn = n.turns.PushBack(ns)
		if n.byName == nil {
			n.byName = map[string]*namespace{}
		}
		n.byName[it.namespace] = ns
	}
	ns.elements[it] = ns.items.PushBack(it)
	n.len++
}

// first returns the first item of the namespace that is served next among those that may run; nil if there is none. Those
// that are skipped have reconciles in flight, so there are few of them.
func (n *namespaces) first(mayRun func(namespace string) bool) *item {
	for e := n.turns.Front(); e != nil; e = e.Next() {
		if it := e.Value.(*namespace).first(); mayRun(it.namespace) {
			return it
		}
	}
	return nil
}

func (n *namespace) first() *item { return n.items.Front().Value.(*item) }

// Its namespace is served again after all others.
func (n *namespaces) take(it *item) {
	n.turns.MoveToBack(n.byName[it.namespace].turn)
	n.remove(it)
}

func (n *namespaces) remove(it *item) {
	ns := n.byName[it.namespace]
	ns.items.Remove(ns.elements[it])
	delete(ns.elements, it)
	n.len--
	if ns.items.Len() == 0 {
		n.turns.Remove(ns.turn)
		delete(n.byName, it.namespace)
	}
}

// since is when the longest-waiting item was requested; zero if there is none.
func (n *namespaces) oldest() (since time.Time) {
	for _, ns := range n.byName {
		if at := ns.first().request.since; since.IsZero() || at.Before(since) {
			since = at
		}
	}
	return since
}
