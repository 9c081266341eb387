package engine

import "iter"

// ring is a list of things that hold their own places in it: joining and leaving
// it, from anywhere, takes no search and no memory. Its zero value is empty; it
// must not be copied once it was joined.
type ring[T any] struct{ root place[T] }

// place is where something stands in a ring, or outside of any.
type place[T any] struct {
	before, after *place[T]
	of            T
}

func (p *place[T]) taken() bool { return p.after != nil }

// join puts a place at the end.
func (r *ring[T]) join(p *place[T]) {
	if r.root.after == nil {
		r.root.before, r.root.after = &r.root, &r.root
	}
	p.before, p.after = r.root.before, &r.root
	p.before.after, p.after.before = p, p
}

// leave takes a place out; one that isn't in a ring it leaves as it is.
func (p *place[T]) leave() {
	if p.taken() {
		p.before.after, p.after.before = p.after, p.before
		p.before, p.after = nil, nil
	}
}

func (r *ring[T]) empty() bool { return r.root.after == nil || r.root.after == &r.root }

// first is what stands at the front of a ring that isn't empty.
func (r *ring[T]) first() T { return r.root.after.of }

// all goes from the front to the end. The ring must not change meanwhile.
func (r *ring[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for p := r.root.after; p != nil && p != &r.root; p = p.after {
			if !yield(p.of) {
				return
			}
		}
	}
}
