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

// DeletionHistory is what earlier reconciles of an instance learned of the children that are to
// be deleted. Correctness doesn't depend on it: the status replaces part of it after a restart,
// and losing the rest costs a request or two.
type DeletionHistory struct {
	Children map[types.UID]DeletionAttempts
	// ReportedAt is when the status was last written.
	ReportedAt time.Time
}

// DeletionAttempts is what is known of one child that is to be deleted.
type DeletionAttempts struct {
	// AcceptedAt is when its deletion, or its release, was last accepted.
	AcceptedAt time.Time
	// Refusal is why the last request was refused, if it was.
	Refusal Refusal
	// FirstSeen is when the child was first observed as one that is to be deleted. ChangedAt is when it got its
	// ResourceVersion.
	FirstSeen, ChangedAt time.Time
	ResourceVersion      string
	// Finalizers are the child's finalizers with the managers that added them, once these are
	// known.
	Finalizers []report.Finalizer
}

// Observed records the observed revision of a child that is to be deleted.
func (t DeletionAttempts) Observed(o *unstructured.Unstructured, now time.Time) DeletionAttempts {
	if t.FirstSeen.IsZero() {
		t.FirstSeen = now
	}
	if t.ResourceVersion != o.GetResourceVersion() {
		t.ResourceVersion, t.ChangedAt = o.GetResourceVersion(), now
	}
	return t
}

// Accepted records that a request was accepted.
func (t DeletionAttempts) Accepted(now time.Time) DeletionAttempts {
	t.AcceptedAt, t.Refusal = now, Refusal{}
	return t
}

// Refused records that a request was refused.
func (t DeletionAttempts) Refused(reason report.Reason, message string, o *unstructured.Unstructured, now time.Time) DeletionAttempts {
	t.AcceptedAt, t.Refusal = time.Time{}, t.Refusal.repeated(reason, message, o, now)
	return t
}

// KnowsFinalizersOf reports whether the managers of the child's current finalizers are known.
func (t DeletionAttempts) KnowsFinalizersOf(o *unstructured.Unstructured) bool {
	return slices.EqualFunc(t.Finalizers, o.GetFinalizers(), func(f report.Finalizer, name string) bool { return f.Name == name })
}

// Refusal is a refused request; without a reason there is none.
type Refusal struct {
	Reason  report.Reason
	Message string
	// Since is when it was first refused for this reason, At when it last was, and Times how
	// often in a row.
	Since, At time.Time
	Times     int
	// Digest is the metadataDigest of the child at that time.
	Digest string
}

const (
	initialDeletionRetry = 250 * time.Millisecond
	maxDeletionRetry     = 30 * time.Second
	// changedDeletionRetry bounds the delay for a child that has changed: a webhook may then
	// accept what it refused.
	changedDeletionRetry = 5 * time.Second
)

func (r Refusal) repeated(reason report.Reason, message string, o *unstructured.Unstructured, now time.Time) Refusal {
	if r.Reason != reason {
		r.Since = now
	}
	r.Reason, r.Message, r.At, r.Digest = reason, message, now, metadataDigest(o)
	r.Times++
	return r
}

// nextAttempt is when to repeat the request. No event shows that a webhook accepts it now: it is
// repeated with growing delay, and sooner if the child has changed.
func (r Refusal) nextAttempt(o *unstructured.Unstructured) time.Time {
	delay := maxDeletionRetry
	if r.Times < 16 {
		delay = min(maxDeletionRetry, time.Duration(float64(initialDeletionRetry)*math.Pow(2, float64(r.Times-1))))
	}
	if r.Digest != metadataDigest(o) {
		delay = min(delay, changedDeletionRetry)
	}
	return r.At.Add(delay)
}

// metadataDigest is the digest of what a webhook may decide by. The status isn't part of it, because heartbeats change
// it.
func metadataDigest(o *unstructured.Unstructured) string {
	return object.Digest([]any{o.GetLabels(), o.GetAnnotations(), o.GetFinalizers(), o.GetGeneration(), o.GetOwnerReferences()})
}

// It is what earlier reconciles learned or, after a restart, what the status reports.
func (r Remaining) attemptsOf(c target) DeletionAttempts {
	t := r.History.Children[c.GetUID()]
	for _, reported := range r.reportedBlockers() {
		if reported.Object != report.ObjectOf(c) {
			continue
		}
		switch reported.Reason {
		case report.DeniedByWebhook, report.WebhookUnavailable, report.Forbidden, report.OutOfReach:
			if t.Refusal.Reason == "" && t.AcceptedAt.IsZero() {
				t.Refusal = Refusal{Reason: reported.Reason, Message: reported.Message, Since: reported.Since.Time}
			}
		case report.HeldByFinalizer:
			if !t.KnowsFinalizersOf(c.Unstructured) {
				t.Finalizers = reported.Finalizers
			}
		default:
		}
	}
	return t
}
