package queue

import "iter"

// list is a linked list of values that hold their own elements: adding to it and removing from anywhere takes no search
// and no memory. Its zero value is empty; it must not be copied once something was added.
type list[T any] struct{ root element[T] }

// element is where a value is linked into a list, or not at all.
type element[T any] struct {
	prev, next *element[T]
	value      T
}

func (e *element[T]) isLinked() bool { return e.next != nil }

// pushBack adds an element at the end.
func (l *list[T]) pushBack(e *element[T]) {
	if l.root.next == nil {
		l.root.prev, l.root.next = &l.root, &l.root
	}
	e.prev, e.next = l.root.prev, &l.root
	e.prev.next, e.next.prev = e, e
}

// unlink removes an element from its list; it does nothing if the element is in none.
func (e *element[T]) unlink() {
	if e.isLinked() {
		e.prev.next, e.next.prev = e.next, e.prev
		e.prev, e.next = nil, nil
	}
}

func (l *list[T]) empty() bool { return l.root.next == nil || l.root.next == &l.root }

// front is the first value of a list, which must not be empty.
func (l *list[T]) front() T { return l.root.next.value }

// all iterates from the front to the back. The list must not change meanwhile.
func (l *list[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for e := l.root.next; e != nil && e != &l.root; e = e.next {
			if !yield(e.value) {
				return
			}
		}
	}
}
