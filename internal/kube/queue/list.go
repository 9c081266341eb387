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

func (p *element[T]) isLinked() bool { return p.next != nil }

// pushBack adds an element at the end.
func (r *list[T]) pushBack(p *element[T]) {
	if r.root.next == nil {
		r.root.prev, r.root.next = &r.root, &r.root
	}
	p.prev, p.next = r.root.prev, &r.root
	p.prev.next, p.next.prev = p, p
}

// unlink removes an element from its list; it does nothing if the element is in none.
func (p *element[T]) unlink() {
	if p.isLinked() {
		p.prev.next, p.next.prev = p.next, p.prev
		p.prev, p.next = nil, nil
	}
}

func (r *list[T]) empty() bool { return r.root.next == nil || r.root.next == &r.root }

// front is the first value of a list, which must not be empty.
func (r *list[T]) front() T { return r.root.next.value }

// all iterates from the front to the back. The list must not change meanwhile.
func (r *list[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for p := r.root.next; p != nil && p != &r.root; p = p.next {
			if !yield(p.value) {
				return
			}
		}
	}
}
