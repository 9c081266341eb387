package cloudcontrol

import "slices"

// priority is who goes first when calls of one namespace wait.
type priority int

const (
	writes priority = iota
	reads
	priorities
)

func (p priority) String() string { return [...]string{"write", "read"}[p] }

// reserved is after how many writes of a namespace in a row a read of it goes first.
const reserved = 3

// turns are the calls that wait. Namespaces take turns: one with many calls delays each call of another by one
// call. Cluster-scoped managed resources are the namespace with the empty name. In the turn of a namespace, calls
// that change something go before those that read, but not without end. The zero value is empty.
type turns struct {
	// waiting are the namespaces with calls, in the order of their turns. There are no more of them than workers.
	waiting []*turn
}

// The calls of a namespace are in the order of their arrival.
type turn struct {
	namespace string
	calls     [priorities][]*waiter
	// writesInRow counts the writes after the last read.
	writesInRow int
}

type waiter struct {
	namespace string
	priority  priority
	ready     chan struct{}
}

// A namespace without calls has its turn after all others.
func (t *turns) push(w *waiter) {
	i := t.index(w.namespace)
	if i < 0 {
		i = len(t.waiting)
		t.waiting = append(t.waiting, &turn{namespace: w.namespace})
	}
	of := t.waiting[i]
	of.calls[w.priority] = append(of.calls[w.priority], w)
}

// It is nil without a call.
func (t *turns) pop() *waiter {
	if len(t.waiting) == 0 {
		return nil
	}
	of := t.waiting[0]
	t.waiting = slices.Delete(t.waiting, 0, 1)
	w := of.pop()
	if !of.isEmpty() {
		t.waiting = append(t.waiting, of)
	}
	return w
}

func (t *turns) remove(w *waiter) {
	i := t.index(w.namespace)
	if i < 0 {
		return
	}
	of := t.waiting[i]
	of.calls[w.priority] = slices.DeleteFunc(of.calls[w.priority], func(other *waiter) bool { return other == w })
	if of.isEmpty() {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
}

func (t *turns) len() int {
	n := 0
	for _, of := range t.waiting {
		n += len(of.calls[writes]) + len(of.calls[reads])
	}
	return n
}

func (t *turns) index(namespace string) int {
	return slices.IndexFunc(t.waiting, func(of *turn) bool { return of.namespace == namespace })
}

func (t *turn) isEmpty() bool { return len(t.calls[writes])+len(t.calls[reads]) == 0 }

func (t *turn) pop() *waiter {
	p := writes
	if len(t.calls[writes]) == 0 || len(t.calls[reads]) > 0 && t.writesInRow >= reserved {
		p = reads
	}
	if t.writesInRow++; p == reads {
		t.writesInRow = 0
	}
	w := t.calls[p][0]
	t.calls[p] = slices.Delete(t.calls[p], 0, 1)
	return w
}
