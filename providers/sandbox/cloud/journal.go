package cloud

import (
	"slices"
	"sync"
)

// Entry is a call as a journal has it.
type Entry struct {
	Verb Verb
	// Key is what the call was about, as far as that was known.
	Key Key
	// Tags are those that a create brought.
	Tags map[string]string
	// Code is what the cloud has answered, "" if all was well.
	Code Code
	// Effect says that the call has begun an operation, or that an administrator has
	// changed something.
	Effect bool
	// Late says that this is a late call's arrival. The call has an entry of its own.
	Late bool
	// OutOfBand says that an administrator did it.
	OutOfBand bool
}

// Journal keeps all calls to a cloud, in the order in which they had their effect. It
// is safe for concurrent use.
type Journal struct {
	mu      sync.Mutex
	entries []Entry
}

// add notes an entry, if there is a journal.
func (j *Journal) add(e Entry) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
}

// Select lists the entries that every filter takes.
func (j *Journal) Select(filters ...func(Entry) bool) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []Entry
	for _, e := range j.entries {
		if !slices.ContainsFunc(filters, func(takes func(Entry) bool) bool { return !takes(e) }) {
			out = append(out, e)
		}
	}
	return out
}

// HadEffect selects the calls that had one.
func HadEffect(e Entry) bool { return e.Effect }

// Did selects the calls of a verb.
func Did(v Verb) func(Entry) bool { return func(e Entry) bool { return e.Verb == v } }
