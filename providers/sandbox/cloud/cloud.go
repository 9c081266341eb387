package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"
)

// Options configure a cloud. The zero value is valid.
type Options struct {
	// Now is the clock; nil is time.Now. It must not call the cloud.
	Now func() time.Time
	// Behaviours are the behaviours of types. The default is the zero Behaviour.
	Behaviours map[Type]Behaviour
	// Journal records the calls; it may be nil.
	Journal *Journal
}

// Cloud is a simulated cloud. It is safe for concurrent use: calls are serialized. All errors
// of calls are of type [*Error].
type Cloud struct {
	now     func() time.Time
	journal *Journal
	// file is where the contents are stored; empty for memory only.
	file string

	mu         sync.Mutex
	behaviours map[Type]Behaviour
	contents   contents
	changed    bool // since it was stored
}

// contents is the stored state, in the order of creation.
type contents struct {
	Serial     int64     `json:"serial"`
	Resources  []*record `json:"resources,omitempty"`
	Operation  int64     `json:"operation"`
	Operations []*job    `json:"operations,omitempty"`
}

// record is a stored resource. It is kept for a while after the deletion.
type record struct {
	Resource
	// Visible is when reads begin to return it, Gone when it is deleted, and Hidden when reads
	// stop returning it.
	Visible time.Time `json:"visible"`
	Gone    time.Time `json:"gone,omitzero"`
	Hidden  time.Time `json:"hidden,omitzero"`
	// Free is when its name can be used again.
	Free time.Time `json:"free,omitzero"`
}

func (r *record) isVisible(now time.Time) bool {
	return !now.Before(r.Visible) && (r.Gone.IsZero() || now.Before(r.Hidden))
}

// New returns an empty cloud in memory.
func New(o Options) *Cloud {
	c := &Cloud{now: o.Now, journal: o.Journal, behaviours: map[Type]Behaviour{}}
	if c.now == nil {
		c.now = time.Now
	}
	for t, b := range o.Behaviours {
		c.behaviours[t] = b
	}
	return c
}

// Open opens the cloud that is stored in a file, or returns an empty one. Each call stores its
// changes before it returns, so there is nothing to close. Running operations continue by the
// clock while no process has the file open. Only one process at a time may use a file.
func Open(file string, o Options) (*Cloud, error) {
	c := New(o)
	c.file = file
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &c.contents); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// store writes the contents to the file if they have changed. The file is replaced atomically.
func (c *Cloud) store() error {
	if !c.changed || c.file == "" {
		return nil
	}
	raw, err := json.Marshal(c.contents)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.file+".new", raw, 0o600); err != nil {
		return err
	}
	if err := os.Rename(c.file+".new", c.file); err != nil {
		return err
	}
	c.changed = false
	return nil
}

// Journal returns the journal of the cloud; nil if it has none.
func (c *Cloud) Journal() *Journal { return c.journal }

// Behaviour returns the current behaviour for a type.
func (c *Cloud) Behaviour(t Type) Behaviour {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.behaviours[t]
}

// SetBehaviour sets the behaviour for a type.
func (c *Cloud) SetBehaviour(t Type, b Behaviour) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behaviours[t] = b
}

// step executes a call: it ends operations that are due, calls do, and stores the changes.
func (c *Cloud) step(do func(now time.Time) error) error { return c.stepAt(c.now(), do) }

func (c *Cloud) stepAt(now time.Time, do func(now time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = now.Round(0).UTC()
	c.finishDue(now)
	err := do(now)
	if failed := c.store(); failed != nil {
		return errorf(Unavailable, "%v", failed)
	}
	return err
}

// finishDue ends the operations that are due, in order and each at its own time, so that the
// result does not depend on how often it is called.
func (c *Cloud) finishDue(now time.Time) {
	for {
		var next *job
		for _, j := range c.contents.Operations {
			if !j.Done() && !j.Due.After(now) && (next == nil || j.Due.Before(next.Due)) {
				next = j
			}
		}
		if next == nil {
			break
		}
		c.finish(next)
	}
	w := &c.contents
	w.Resources = slices.DeleteFunc(w.Resources, func(r *record) bool {
		return !r.Gone.IsZero() && !now.Before(r.Hidden) && !now.Before(r.Free)
	})
	w.Operations = slices.DeleteFunc(w.Operations, func(j *job) bool { return j.Done() && now.Sub(j.Due) > 24*time.Hour })
}

// find returns a resource, even if reads do not return it yet.
func (c *Cloud) find(k Key) (*record, error) {
	for _, r := range c.contents.Resources {
		if r.Key == k && r.Gone.IsZero() {
			return r, nil
		}
	}
	return nil, errorf(NotFound, "%s does not exist", k)
}

// checkUnused returns an error if resources or running operations refer to a resource.
func (c *Cloud) checkUnused(k Key) error {
	for _, r := range c.contents.Resources {
		if r.Gone.IsZero() && slices.Contains(r.Properties.references(r.Scope), k) {
			return errorf(DependencyViolation, "%s is used by %s", k, r.Key)
		}
	}
	for _, j := range c.contents.Operations {
		if !j.Done() && slices.Contains(j.Next.references(j.Resource.Scope), k) {
			return errorf(DependencyViolation, "%s is used by %s", k, j.Resource)
		}
	}
	return nil
}

// removeResource deletes a resource. For the times of its Behaviour, reads still return it, and
// its name cannot be used again.
func (c *Cloud) removeResource(r *record, now time.Time) {
	b := c.behaviours[r.Type]
	r.Gone, r.Hidden, r.Free = now, now, now
	if !r.Visible.After(now) {
		r.Hidden = now.Add(b.DeleteLag)
	}
	if b.Naming != ProviderAssigned {
		r.Free = now.Add(b.ReuseAfter)
	}
	c.changed = true
}
