package plan

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/report"
)

// Remains is what is known of the children that are to go: all of an instance's
// that is being deleted, or those that nothing wants any more. The objects are
// shared with caches and must not be changed.
type Remains struct {
	Instance *unstructured.Unstructured
	Children []*unstructured.Unstructured
	// Unread are the kinds that may have further children and can't be read now.
	Unread map[schema.GroupVersionKind]Blind
	// Policy is what was asked for when the instance was deleted.
	Policy report.Policy
	// Tried is what earlier passes know.
	Tried Tried
	// Before is what the instance's status tells.
	Before report.Status
	Now    time.Time
}

// Tried is what passes over an instance know of how its children were asked to
// go. Nothing rests on it: losing it costs a request or two.
type Tried struct {
	// Asked are the children whose deletion was granted.
	Asked map[types.UID]bool
	// Refusals are the children whose deletion, or release, was not.
	Refusals map[types.UID]Refusal
	// Noticed is since when a child has been seen on its way.
	Noticed map[types.UID]time.Time
	// Finalizers are those of children that stay, with who put them on.
	Finalizers map[types.UID][]report.Finalizer
	// Told is when the status was last written.
	Told time.Time
}

// Refusal is what came of asking for a child to go.
type Refusal struct {
	Reason  report.Reason
	Message string
	// Since is when it was first refused, Times how often since then.
	Since time.Time
	Times int
	// Next is when to ask again; a change of the child is a reason to ask at once.
	Next     time.Time
	Revision string
}

const (
	firstAsk   = 250 * time.Millisecond
	slowestAsk = 30 * time.Second
)

// Again is the refusal after a further one. Nothing tells when a webhook changes
// its mind: it is asked again, with growing delay.
func (r Refusal) Again(reason report.Reason, message string, child *unstructured.Unstructured, now time.Time) Refusal {
	if r.Reason != reason {
		r = Refusal{Since: now}
	}
	r.Reason, r.Message, r.Revision = reason, message, child.GetResourceVersion()
	delay := slowestAsk
	if r.Times < 16 {
		delay = min(slowestAsk, time.Duration(float64(firstAsk)*math.Pow(2, float64(r.Times))))
	}
	r.Times++
	r.Next = now.Add(delay)
	return r
}

// due says whether to ask again.
func (r Refusal) due(child *unstructured.Unstructured, now time.Time) bool {
	return !now.Before(r.Next) || r.Revision != child.GetResourceVersion()
}
