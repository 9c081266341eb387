package watch

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

// Change is what happened to an object or to its kind.
type Change string

// The changes.
const (
	Added     Change = "Added"
	Updated   Change = "Updated"
	Deleted   Change = "Deleted"
	Resync    Change = "Resync"    // nothing happened; reconcile all the same
	KindState Change = "KindState" // the kind's State changed; Cause.Object names only the kind
)

// Priority is how soon an event should be handled.
type Priority uint8

// The priorities, lowest first.
const (
	Background Priority = iota // a replay: a first list, or what a relist found
	// Normal is any other change: of a status, of the content of a kind without
	// metadata.generation (ConfigMap, Secret), or of a kind's state.
	Normal
	// Urgent is for an object that was created or deleted, or whose generation, labels or annotations changed, or whose
	// deletion began.
	Urgent
)

// Cause says why a subscriber is woken. It is a hint for queues, logs and metrics: events
// are coalesced, so the subscriber decides by the objects themselves.
type Cause struct {
	Object     object.Key
	Change     Change
	Priority   Priority
	Old, New   Metadata  // before and after; zero where the object does not exist
	ObservedAt time.Time // when the hub saw the change
	// Write is the write that the change shows; zero if it may show several, as a list does.
	Write Write
	// Trace is the span of the change; nil if it is not traced.
	Trace *tracing.Event
}

// Write identifies a write by the state of the object after it.
type Write struct {
	UID      string
	Revision uint64 // Gone, if the object is gone
}

// Gone is the revision of an object that is gone.
const Gone = forever

// Metadata is the part of an object's metadata that distinguishes its incarnations and
// generations.
type Metadata struct {
	UID        string
	Generation int64
	Deleting   bool
}

func metadataFrom(o *unstructured.Unstructured) Metadata {
	if o == nil {
		return Metadata{}
	}
	m := metadataOf(o)
	uid, _ := m["uid"].(string)
	generation, _ := m["generation"].(int64)
	return Metadata{UID: uid, Generation: generation, Deleting: m["deletionTimestamp"] != nil}
}

// transition is one change in a store. At least one side is set.
type transition struct {
	old, new *unstructured.Unstructured
	replay   bool // the object existed before the watch began
	// at is the revision of the event that shows the change; 0 if it is not an event.
	at uint64
}

func (t transition) cause(now time.Time) Cause {
	c := Cause{Object: object.KeyOf(t.object()), Old: metadataFrom(t.old), New: metadataFrom(t.new), ObservedAt: now}
	switch {
	case t.old == nil:
		c.Change = Added
	case t.new == nil:
		c.Change = Deleted
	default:
		c.Change = Updated
	}
	if t.at != 0 {
		c.Write = Write{uidOf(t.object()), t.at}
	}
	c.Priority = t.priority(c.Old, c.New)
	return c
}

func (t transition) priority(previous, current Metadata) Priority {
	switch {
	case t.replay:
		return Background
	case t.old == nil, t.new == nil, previous != current,
		!sameStrings(t.old, t.new, "labels"), !sameStrings(t.old, t.new, "annotations"):
		return Urgent
	default:
		return Normal
	}
}

func (t transition) object() *unstructured.Unstructured {
	if t.new != nil {
		return t.new
	}
	return t.old
}

func sameStrings(a, b *unstructured.Unstructured, field string) bool {
	return maps.EqualFunc(child(metadataOf(a), field), child(metadataOf(b), field), func(x, y any) bool {
		left, ok := x.(string)
		return ok && y == any(left) // comparing other types could panic
	})
}
