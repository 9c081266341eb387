package tracing

// Without a revision the object is gone.
type stateID struct{ uid, revision string }

// state is what is known of a state of an object: the request that led to it, and the span of its event.
type state struct {
	writer *origin
	event  *Event
}

// recent remembers the last values, at most limit of them.
type recent[T any] struct {
	limit  int
	values map[stateID]T
	// ring lists the identifiers in the order of arrival; next is the oldest once it is full.
	ring []stateID
	next int
}

func newRecent[T any](limit int) recent[T] { return recent[T]{limit: limit, values: map[stateID]T{}} }

// A new identifier takes the place of the oldest.
func (r *recent[T]) set(id stateID, value T) {
	_, known := r.values[id]
	switch {
	case known:
	case len(r.ring) < r.limit:
		r.ring = append(r.ring, id)
	default:
		delete(r.values, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % r.limit
	}
	r.values[id] = value
}
