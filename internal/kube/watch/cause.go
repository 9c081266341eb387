package watch

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
)

// Change is what happened to an object or to its kind.
type Change string

// The changes.
const (
	Added     Change = "Added"
	Updated   Change = "Updated"
	Deleted   Change = "Deleted"
	Resync    Change = "Resync"    // nothing happened; look at it all the same
	KindState Change = "KindState" // the kind's State changed; Cause.Object names only the kind
)

// Priority is how soon an event deserves to be handled.
type Priority uint8

// The priorities, lowest first.
const (
	Background Priority = iota // a replay: a first list, or what a relist found
	Normal                     // a status moved, or a kind's state did
	Urgent                     // an object came, went, or was changed in what people write
)

// Cause says why a subscriber is woken. It is a hint for queues, logs and
// metrics: wake-ups coalesce, so what to do follows from the objects.
type Cause struct {
	Object   object.Key
	Change   Change
	Priority Priority
	Was, Is  Metadata  // before and after; zero where the object wasn't or isn't
	At       time.Time // when the hub learnt of it
}

// Metadata are the parts of an object's metadata that tell its incarnations apart.
type Metadata struct {
	UID        string
	Generation int64
	Deleting   bool
}

func marksOf(o *unstructured.Unstructured) Metadata {
	if o == nil {
		return Metadata{}
	}
	m := metadataOf(o)
	uid, _ := m["uid"].(string)
	generation, _ := m["generation"].(int64)
	return Metadata{UID: uid, Generation: generation, Deleting: m["deletionTimestamp"] != nil}
}

// transition is one change in a store. Either side may be absent, but not both.
type transition struct {
	was, is *unstructured.Unstructured
	replay  bool // there before we looked
}

func (t transition) cause(now time.Time) Cause {
	c := Cause{Object: object.KeyOf(t.object()), Was: marksOf(t.was), Is: marksOf(t.is), At: now}
	switch {
	case t.was == nil:
		c.Change = Added
	case t.is == nil:
		c.Change = Deleted
	default:
		c.Change = Updated
	}
	c.Priority = t.priority(c.Was, c.Is)
	return c
}

func (t transition) priority(was, is Metadata) Priority {
	switch {
	case t.replay:
		return Background
	case t.was == nil, t.is == nil, was != is,
		!sameStrings(t.was, t.is, "labels"), !sameStrings(t.was, t.is, "annotations"):
		return Urgent
	default:
		return Normal
	}
}

func (t transition) object() *unstructured.Unstructured {
	if t.is != nil {
		return t.is
	}
	return t.was
}

func sameStrings(a, b *unstructured.Unstructured, field string) bool {
	return maps.EqualFunc(child(metadataOf(a), field), child(metadataOf(b), field), func(x, y any) bool {
		left, ok := x.(string)
		return ok && y == any(left) // comparing what isn't a string could panic
	})
}
