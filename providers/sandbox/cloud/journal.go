package cloud

import (
	"maps"
	"sync"
	"time"
)

// Entry is a call as the journal has it.
type Entry struct {
	At   time.Time
	Verb Verb
	// Key is what the call was about, as far as that was known: a create without effect
	// has no ID.
	Key Key
	// Serial is that of the resource that was hit, 0 if there was none.
	Serial int64
	Name   string
	Token  string
	// Tags are those that a create brought, those that a list asked for, and those that
	// the resource carried which an update or a delete has found.
	Tags map[string]string
	// Operation is that of the answer, whether or not the caller got it.
	Operation string
	// Code is what the caller was told, "" if all was well.
	Code Code
	// Effect says that the call has begun an operation, or that an administrator has
	// changed something.
	Effect bool
	// Replayed says that the token was known and stood for an earlier call.
	Replayed bool
	// Late says that this is a late call's arrival. Its caller was told Timeout before,
	// in an entry of its own; Code is what it would have been told.
	Late bool
	// OutOfBand says that an administrator did it.
	OutOfBand bool
}

// Journal keeps the latest calls to a cloud, in the order in which they had their
// effect. It lives in memory; to see over restarts, hand the same one to each Open. It
// is safe for concurrent use, and clouds may share one.
type Journal struct {
	mu      sync.Mutex
	limit   int
	entries []Entry
	dropped int
}

// NewJournal makes a journal that keeps at least so many entries, and at most twice as
// many.
func NewJournal(limit int) *Journal { return &Journal{limit: max(limit, 1)} }

func (j *Journal) add(e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.entries) >= 2*j.limit {
		fresh := append([]Entry(nil), j.entries[len(j.entries)-j.limit+1:]...)
		j.dropped += len(j.entries) - len(fresh)
		j.entries = fresh
	}
	j.entries = append(j.entries, e)
}

// Select lists the entries for which all conditions hold, in order. The entries' tags
// must not be changed.
func (j *Journal) Select(conditions ...func(Entry) bool) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []Entry
next:
	for _, e := range j.entries {
		for _, holds := range conditions {
			if !holds(e) {
				continue next
			}
		}
		out = append(out, e)
	}
	return out
}

// Dropped is how many entries were forgotten: if it isn't 0, what Select doesn't find
// may have been.
func (j *Journal) Dropped() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.dropped
}

// HadEffect selects the calls that had one.
func HadEffect(e Entry) bool { return e.Effect }

// Did selects the calls of a verb.
func Did(v Verb) func(Entry) bool { return func(e Entry) bool { return e.Verb == v } }

// About selects the calls about resources of a type.
func About(t Type) func(Entry) bool { return func(e Entry) bool { return e.Key.Type == t } }

// Tagged selects the calls whose tags hold this one.
func Tagged(key, value string) func(Entry) bool {
	return func(e Entry) bool { return carries(e.Tags, map[string]string{key: value}) }
}

// entry begins the entry of a call.
func (q request) entry(now time.Time) Entry {
	e := Entry{At: now, Verb: q.Verb, Key: q.Key, Name: q.Name, Token: q.Token}
	if q.Verb == VerbCreate {
		e.Tags = maps.Clone(q.Tags)
	}
	return e
}

// hits notes the operation that a call has begun or found.
func (e *Entry) hits(j job) { e.Key, e.Serial, e.Operation = j.Resource, j.Serial, j.id() }
