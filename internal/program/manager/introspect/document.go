package introspect

import (
	"time"

	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/watch"
)

// Watch is one watch in the response. Programs read it: fields may be added, and none changes
// its name or meaning. All fields are always present.
type Watch struct {
	Group       string    `json:"group"` // empty for the core group
	Version     string    `json:"version"`
	Kind        string    `json:"kind"`
	Selection   string    `json:"selection"` // which objects of the kind: all, managed, one …, labelled …
	State       string    `json:"state"`     // Syncing, Synced or Unavailable
	Reason      string    `json:"reason"`    // of Unavailable
	Message     string    `json:"message"`   // for people
	Since       time.Time `json:"since"`     // when state or reason last changed
	Generation  int64     `json:"generation"`
	Subscribers int       `json:"subscribers"`
	Objects     int       `json:"objects"`
	Events      uint64    `json:"events"`
	AgeSeconds  int64     `json:"ageSeconds"`
	As          string    `json:"as"` // the impersonated user; empty for the program's own
}

// Watches converts watches in their order. The result is never nil.
func Watches(stats []watch.KindStats) []Watch {
	out := make([]Watch, 0, len(stats))
	for _, s := range stats {
		out = append(out, Watch{
			Group: s.Kind.Group, Version: s.Kind.Version, Kind: s.Kind.Kind,
			Selection: s.Selection,
			State:     string(s.State.Phase), Reason: string(s.State.Reason), Message: s.State.Message,
			Since:      s.State.Since.UTC().Truncate(time.Millisecond),
			Generation: s.State.Generation, Subscribers: s.Subscribers,
			Objects: s.Objects, Events: s.Events,
			AgeSeconds: int64(s.Age / time.Second), As: s.ImpersonatedUser,
		})
	}
	return out
}

// Unavailable reports whether the kind cannot be watched now.
func (w Watch) Unavailable() bool { return w.State == string(watch.Unavailable) }

// Queue is the queue of a kind in the response. Programs read it: fields may be added, and none changes its name or meaning.
type Queue struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Depth counts the objects that wait, Active those that are being reconciled, and Retries those whose last reconcile failed.
	Depth   int `json:"depth"`
	Active  int `json:"active"`
	Retries int `json:"retries"`
}

// Queues converts the numbers of queues. The result is never nil.
func Queues(stats []queue.Stats) []Queue {
	out := make([]Queue, 0, len(stats))
	for _, s := range stats {
		out = append(out, Queue{Group: s.Kind.Group, Kind: s.Kind.Kind, Depth: s.Depth, Active: s.Active, Retries: s.Retries})
	}
	return out
}

// Process is the program that listens, in the response. Programs read it: fields may be added, and none changes its name
// or meaning.
type Process struct {
	PID int `json:"pid"`
	// Lease is the namespace and name of the Lease by which it coordinates with other processes, as NAMESPACE/NAME; empty
	// if it does not.
	Lease string `json:"lease"`
}
