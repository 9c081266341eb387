package queue

// namespaces has the waiting keys of one kind and priority, in a queue for each namespace. It serves the namespaces round
// robin: one with many keys delays another by one key at a time. Keys of cluster-scoped objects are in one queue, unless
// Config.OnBehalfOf names a namespace. A namespace without keys takes no memory, and each operation takes the same time
// however many keys wait.
type namespaces struct {
	byName map[string]*namespace
	rounds list[*namespace] // those with keys, in round-robin order
}

// namespace are the waiting keys of a namespace, in the order of their requests.
type namespace struct {
	items list[*item]
	round element[*namespace]
}

func (n *namespaces) empty() bool { return len(n.byName) == 0 }

// push adds an item behind those of its namespace. A namespace that had no keys is served after all others.
func (n *namespaces) push(it *item) {
	name := it.namespace
	ns := n.byName[name]
	if ns == nil {
		ns = &namespace{}
		ns.round.value = ns
		if n.byName == nil {
			n.byName = map[string]*namespace{}
		}
		n.byName[name] = ns
		n.rounds.pushBack(&ns.round)
	}
	ns.items.pushBack(&it.element)
}

// pop removes the first item of the namespace that is served next. There must be one.
func (n *namespaces) pop() *item { return n.popFrom(n.rounds.front()) }

// popFrom removes the first item of a namespace, which is served again after all others.
func (n *namespaces) popFrom(ns *namespace) *item {
	it := ns.items.front()
	ns.round.unlink()
	n.rounds.pushBack(&ns.round)
	n.remove(it)
	return it
}

// firstIdle is the namespace that is served next among those without a reconcile in flight; nil if there is none. Those
// that are skipped have one, so there are never more of them than workers.
func (n *namespaces) firstIdle(inFlight map[string]int) *namespace {
	for ns := range n.rounds.all() {
		if inFlight[ns.items.front().namespace] == 0 {
			return ns
		}
	}
	return nil
}

// remove removes a waiting item.
func (n *namespaces) remove(it *item) {
	it.element.unlink()
	if ns := n.byName[it.namespace]; ns.items.empty() {
		ns.round.unlink()
		delete(n.byName, it.namespace)
	}
}
