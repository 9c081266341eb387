package cloud

import (
	"slices"
	"time"
)

// world is everything that there is, and what becomes of it: requests and moments
// in, effects and refusals out. It knows of no clock, no lock and no disk.
type world struct {
	counters
	treatments table[treatment]
	resources  table[row]
	ghosts     table[ghost]
	names      table[taken]
	operations table[job]
	tokens     table[token]
	letters    table[letter]

	// moved says that a counter has changed since the last take.
	moved  bool
	agenda agenda
	// landed are the letters that settle has opened, for the journal.
	landed []Entry
}

// counters are what of the world is no table.
type counters struct {
	// Seen is the latest moment that anybody has looked at.
	Seen time.Time `json:"seen"`
	// Serial, Operation and Letter count what was made.
	Serial    int64 `json:"serial,omitempty"`
	Operation int64 `json:"operation,omitempty"`
	Letter    int64 `json:"letter,omitempty"`
	// Draws counts the calls that chance has hit.
	Draws uint64 `json:"draws,omitempty"`
	Chaos Chaos  `json:"chaos,omitzero"`
	// Faults are the scripted ones, in order.
	Faults []Fault `json:"faults,omitempty"`
}

// change is what became of the world in one call. It is all or nothing.
type change struct {
	counters
	Treatments delta[treatment] `json:"treatments,omitzero"`
	Resources  delta[row]       `json:"resources,omitzero"`
	Ghosts     delta[ghost]     `json:"ghosts,omitzero"`
	Names      delta[taken]     `json:"names,omitzero"`
	Operations delta[job]       `json:"operations,omitzero"`
	Tokens     delta[token]     `json:"tokens,omitzero"`
	Letters    delta[letter]    `json:"letters,omitzero"`
}

func newWorld() *world {
	return &world{
		treatments: newTable[treatment](), resources: newTable[row](), ghosts: newTable[ghost](), names: newTable[taken](),
		operations: newTable[job](), tokens: newTable[token](), letters: newTable[letter](),
	}
}

// changed says whether there is something to take.
func (w *world) changed() bool {
	return w.moved || len(w.treatments.touched)+len(w.resources.touched)+len(w.ghosts.touched)+len(w.names.touched)+
		len(w.operations.touched)+len(w.tokens.touched)+len(w.letters.touched) > 0
}

// take gives what changed since it was last asked.
func (w *world) take() change {
	w.moved = false
	return change{
		counters: w.counters, Treatments: w.treatments.take(), Resources: w.resources.take(), Ghosts: w.ghosts.take(),
		Names: w.names.take(), Operations: w.operations.take(), Tokens: w.tokens.take(), Letters: w.letters.take(),
	}
}

// whole is the change that makes this world from an empty one.
func (w *world) whole() change {
	return change{
		counters: w.counters, Treatments: w.treatments.all(), Resources: w.resources.all(), Ghosts: w.ghosts.all(),
		Names: w.names.all(), Operations: w.operations.all(), Tokens: w.tokens.all(), Letters: w.letters.all(),
	}
}

// apply repeats a change that was taken from this world before.
func (w *world) apply(c change) {
	w.counters = c.counters
	w.treatments.apply(c.Treatments)
	w.resources.apply(c.Resources)
	w.ghosts.apply(c.Ghosts)
	w.names.apply(c.Names)
	w.operations.apply(c.Operations)
	w.tokens.apply(c.Tokens)
	w.letters.apply(c.Letters)
}

// find is the resource itself, whether or not reads show it.
func (w *world) find(k Key) (row, error) {
	if r, ok := w.resources.rows[k.id()]; ok {
		return r, nil
	}
	return row{}, refuse(NotFound, "there is no %s", k)
}

// revise puts a resource that has changed.
func (w *world) revise(r row) {
	r.Revision++
	w.resources.put(r)
}

// users are the resources that refer to one, or are about to, sorted.
func (w *world) users(k Key) []Key {
	var out []Key
	for _, r := range w.resources.rows {
		if r.Scope == k.Scope && (refersTo(r.Properties, k) || refersTo(r.Next, k)) {
			out = append(out, r.Key)
		}
	}
	slices.SortFunc(out, Key.Compare)
	return out
}

func refersTo(b box, k Key) bool {
	return !b.IsZero() && slices.ContainsFunc(b.needs(), func(n need) bool { return n.kind == k.Type && n.id == k.ID })
}

// purge drops what nobody can ask for any more: tokens and operations past their
// time. It changes no answer.
func (w *world) purge(now time.Time) {
	for id, t := range w.tokens.rows {
		if !now.Before(t.Expires) {
			w.tokens.drop(id)
		}
	}
	for id, j := range w.operations.rows {
		if j.Status != Running && !now.Before(j.Forget) {
			w.operations.drop(id)
		}
	}
}
