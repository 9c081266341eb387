package plan

import (
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// DeletionHistory is what passes over an instance know of the children that are to go.
// Nothing rests on it: what the status tells stands in for it after a restart, and
// losing the rest costs a request or two.
type DeletionHistory struct {
	Children map[types.UID]DeletionAttempts
	// Reported is when the status was last written.
	Reported time.Time
}

// DeletionAttempts is what is known of one child that is to go.
type DeletionAttempts struct {
	// Asked is when its deletion, or its release, was last granted.
	Asked time.Time
	// Refusal is why it wasn't, if it was asked for and refused since.
	Refusal Refusal
	// Noticed is since when it has been seen on its way, and Changed since when it
	// has been as it is, in this Revision.
	Noticed, Changed time.Time
	Revision         string
	// Finalizers are those that it has, with who put them on, once that is known.
	Finalizers []report.Finalizer
}

// Seen notes that a child is on its way, as it is.
func (t DeletionAttempts) Seen(o *unstructured.Unstructured, now time.Time) DeletionAttempts {
	if t.Noticed.IsZero() {
		t.Noticed = now
	}
	if t.Revision != o.GetResourceVersion() {
		t.Revision, t.Changed = o.GetResourceVersion(), now
	}
	return t
}

// Granted notes that a child was asked to go, and will.
func (t DeletionAttempts) Granted(now time.Time) DeletionAttempts {
	t.Asked, t.Refusal = now, Refusal{}
	return t
}

// Refused notes that a child was asked to go, and won't.
func (t DeletionAttempts) Refused(reason report.Reason, message string, o *unstructured.Unstructured, now time.Time) DeletionAttempts {
	t.Asked, t.Refusal = time.Time{}, t.Refusal.again(reason, message, o, now)
	return t
}

// Knows says whether it is known who put on the finalizers that a child has now.
func (t DeletionAttempts) Knows(o *unstructured.Unstructured) bool {
	return slices.EqualFunc(t.Finalizers, o.GetFinalizers(), func(f report.Finalizer, name string) bool { return f.Name == name })
}

// Refusal is what came of asking for a child to go; without a reason there is none.
type Refusal struct {
	Reason  report.Reason
	Message string
	// Since is when it was first refused for this reason, At when it last was, and
	// Times how often in a row.
	Since, At time.Time
	Times     int
	// Digest is of what the child's metadata said then.
	Digest string
}

const (
	firstAsk   = 250 * time.Millisecond
	slowestAsk = 30 * time.Second
	// changedAsk is how soon a child that has changed is asked for again at most: a
	// webhook may change what it refuses.
	changedAsk = 5 * time.Second
)

func (r Refusal) again(reason report.Reason, message string, o *unstructured.Unstructured, now time.Time) Refusal {
	if r.Reason != reason {
		r.Since = now
	}
	r.Reason, r.Message, r.At, r.Digest = reason, message, now, metadataDigest(o)
	r.Times++
	return r
}

// next is when to ask again. Nothing tells when a webhook changes its mind: it is
// asked with growing delay, and sooner when the child has changed.
func (r Refusal) next(o *unstructured.Unstructured) time.Time {
	delay := slowestAsk
	if r.Times < 16 {
		delay = min(slowestAsk, time.Duration(float64(firstAsk)*math.Pow(2, float64(r.Times-1))))
	}
	if r.Digest != metadataDigest(o) {
		delay = min(delay, changedAsk)
	}
	return r.At.Add(delay)
}

// metadataDigest is of what may matter to whoever refuses something about an
// object. What beats in its status doesn't.
func metadataDigest(o *unstructured.Unstructured) string {
	return object.Digest([]any{o.GetLabels(), o.GetAnnotations(), o.GetFinalizers(), o.GetGeneration(), o.GetOwnerReferences()})
}

// trial is what is known of a child: what passes have seen, or else what the
// status tells, which was written by one that had.
func (r Remaining) trial(c leaver) DeletionAttempts {
	t := r.History.Children[c.GetUID()]
	for _, told := range r.told() {
		if told.Object != report.ObjectOf(c) {
			continue
		}
		switch told.Reason {
		case report.DeniedByWebhook, report.WebhookUnavailable, report.Forbidden, report.OutOfReach:
			if t.Refusal.Reason == "" && t.Asked.IsZero() {
				t.Refusal = Refusal{Reason: told.Reason, Message: told.Message, Since: told.Since.Time}
			}
		case report.HeldByFinalizer:
			if !t.Knows(c.Unstructured) {
				t.Finalizers = told.Finalizers
			}
		default:
		}
	}
	return t
}
