package cloud

import (
	"maps"
	"slices"
)

// keyed is what a table holds.
type keyed interface{ id() string }

// table holds rows by their id and remembers which were touched, so that a change
// can be written without writing the whole.
type table[R keyed] struct {
	rows    map[string]R
	touched map[string]struct{}
}

func newTable[R keyed]() table[R] {
	return table[R]{rows: map[string]R{}, touched: map[string]struct{}{}}
}

func (t *table[R]) put(r R) {
	t.rows[r.id()] = r
	t.touched[r.id()] = struct{}{}
}

func (t *table[R]) drop(id string) {
	if _, ok := t.rows[id]; ok {
		delete(t.rows, id)
		t.touched[id] = struct{}{}
	}
}

// delta is what became of a table's rows, sorted by id.
type delta[R keyed] struct {
	Put  []R      `json:"put,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

// IsZero says that nothing became of them.
func (d delta[R]) IsZero() bool { return len(d.Put)+len(d.Drop) == 0 }

// take gives what was touched since it was last asked.
func (t *table[R]) take() delta[R] {
	var out delta[R]
	for _, id := range slices.Sorted(maps.Keys(t.touched)) {
		if r, ok := t.rows[id]; ok {
			out.Put = append(out.Put, r)
		} else {
			out.Drop = append(out.Drop, id)
		}
	}
	clear(t.touched)
	return out
}

// all is the delta that makes the table from an empty one.
func (t *table[R]) all() delta[R] {
	var out delta[R]
	for _, id := range slices.Sorted(maps.Keys(t.rows)) {
		out.Put = append(out.Put, t.rows[id])
	}
	return out
}

// apply repeats what became of another table. It touches nothing.
func (t *table[R]) apply(d delta[R]) {
	for _, r := range d.Put {
		t.rows[r.id()] = r
	}
	for _, id := range d.Drop {
		delete(t.rows, id)
	}
}
