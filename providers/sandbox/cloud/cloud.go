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

// Options are how a cloud is. The zero value will do.
type Options struct {
	// Now is the clock; nil is time.Now. It must not call the cloud.
	Now func() time.Time
	// Behaviours are those of the types; others have the zero Behaviour.
	Behaviours map[Type]Behaviour
	// Journal is where the calls are noted; nil notes none.
	Journal *Journal
}

// Cloud is a cloud. It is safe for concurrent use: each call is one step, and they
// follow one another. The errors of calls are of type [*Error] throughout.
type Cloud struct {
	now     func() time.Time
	journal *Journal
	// file is where the contents are stored; empty for nowhere.
	file string

	mu         sync.Mutex
	behaviours map[Type]Behaviour
	contents   contents
	changed    bool // since it was stored
}

// contents are everything that there is, in the order in which it was made.
type contents struct {
	Serial     int64     `json:"serial"`
	Resources  []*record `json:"resources,omitempty"`
	Operation  int64     `json:"operation"`
	Operations []*job    `json:"operations,omitempty"`
}

// record is a resource as the cloud keeps it, for a while longer than it exists.
type record struct {
	Resource
	// Visible is when reads begin to show it, and Hidden when they cease to: some time
	// after it is gone.
	Visible time.Time `json:"visible"`
	Gone    time.Time `json:"gone,omitzero"`
	Hidden  time.Time `json:"hidden,omitzero"`
	// Free is when another may have its name.
	Free time.Time `json:"free,omitzero"`
}

func (r *record) shown(now time.Time) bool {
	return !now.Before(r.Visible) && (r.Gone.IsZero() || now.Before(r.Hidden))
}

// New makes an empty cloud, which lives in memory.
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

// Open opens the cloud that a file holds, or makes an empty one. The file has all that
// was answered, so there is nothing to close. Work under way goes on while nobody has the
// cloud open. One process at a time may have it.
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

// store writes the contents down if they have changed: the old file or the new one is there,
// whole.
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

// Journal is where the cloud notes its calls; nil if it notes none.
func (c *Cloud) Journal() *Journal { return c.journal }

// Behaviour is how the cloud treats a type now.
func (c *Cloud) Behaviour(t Type) Behaviour {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.behaviours[t]
}

// SetBehaviour says how the cloud treats a type from now on.
func (c *Cloud) SetBehaviour(t Type, b Behaviour) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behaviours[t] = b
}

// step is what all calls are: time goes on, something is done, and what has changed is
// stored before it is told.
func (c *Cloud) step(work func(now time.Time) error) error { return c.stepAt(c.now(), work) }

func (c *Cloud) stepAt(now time.Time, work func(now time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = now.Round(0).UTC()
	c.settle(now)
	err := work(now)
	if failed := c.store(); failed != nil {
		return refuse(Unavailable, "%v", failed)
	}
	return err
}

// settle lets everything happen that has come due, in its order, each at its time: how
// often it is asked for makes no difference.
func (c *Cloud) settle(now time.Time) {
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

// find is the resource itself, whether or not reads show it.
func (c *Cloud) find(k Key) (*record, error) {
	for _, r := range c.contents.Resources {
		if r.Key == k && r.Gone.IsZero() {
			return r, nil
		}
	}
	return nil, refuse(NotFound, "there is no %s", k)
}

// unused refuses to delete what others refer to, or are about to.
func (c *Cloud) unused(k Key) error {
	for _, r := range c.contents.Resources {
		if r.Gone.IsZero() && slices.Contains(r.Properties.needs(r.Scope), k) {
			return refuse(DependencyViolation, "%s is used by %s", k, r.Key)
		}
	}
	for _, j := range c.contents.Operations {
		if !j.Done() && slices.Contains(j.Next.needs(j.Resource.Scope), k) {
			return refuse(DependencyViolation, "%s is used by %s", k, j.Resource)
		}
	}
	return nil
}

// vanish removes a resource. Reads may show it for a while, and its name
// may be taken.
func (c *Cloud) vanish(r *record, now time.Time) {
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
