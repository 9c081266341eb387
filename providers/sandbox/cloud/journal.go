package cloud

import (
	"slices"
	"sync"
)

// Entry is a call in a journal.
type Entry struct {
	Verb Verb
	// Key is the resource of the call, as far as it was known.
	Key Key
	// Tags are the tags of a create, or those that List searched.
	Tags map[string]string
	// Code is the code of the error; "" for none.
	Code Code
	// Effect: the call has begun an operation, or Admin has changed something.
	Effect bool
	// Late: this is the arrival of a late call. The call itself has another entry.
	Late bool
	// OutOfBand: the change was made by Admin.
	OutOfBand bool
}

// Journal records all calls to a cloud, in the order of their effects. It is safe for
// concurrent use.
type Journal struct {
	mu      sync.Mutex
	entries []Entry
}

// add adds an entry, unless the journal is nil.
func (j *Journal) add(e Entry) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
}

// Select returns the entries that match all filters.
func (j *Journal) Select(filters ...func(Entry) bool) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []Entry
	for _, e := range j.entries {
		if !slices.ContainsFunc(filters, func(filter func(Entry) bool) bool { return !filter(e) }) {
			out = append(out, e)
		}
	}
	return out
}

// HadEffect selects the calls with an effect.
func HadEffect(e Entry) bool { return e.Effect }

// Did selects the calls of a verb.
func Did(v Verb) func(Entry) bool { return func(e Entry) bool { return e.Verb == v } }
