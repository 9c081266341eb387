// Package condition sets, removes and summarizes conditions of a status. The time of a
// condition changes only with its status: a reconcile that finds what the last one found
// produces the same bytes.
//
// Pure: it decides from values alone.
package condition

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Set is a list of conditions in a stable order, at most one of each type.
type Set []v1alpha1.Condition

// True, False and Unknown are statuses of a condition.
const (
	True    = metav1.ConditionTrue
	False   = metav1.ConditionFalse
	Unknown = metav1.ConditionUnknown
)

// Get returns the condition of a type.
func (s Set) Get(kind string) (v1alpha1.Condition, bool) {
	i := slices.IndexFunc(s, func(c v1alpha1.Condition) bool { return c.Type == kind })
	if i < 0 {
		return v1alpha1.Condition{}, false
	}
	return s[i], true
}

// IsTrue reports whether the condition of the type has status True.
func (s Set) IsTrue(kind string) bool {
	c, ok := s.Get(kind)
	return ok && c.Status == True
}

// Limits of a condition, as Kubernetes' own conditions have them.
const (
	maxMessageLength = 32 << 10
	maxReasonLength  = 1024
	maxTypeLength    = 316
)

// Mark returns a copy of the set with the condition added or replaced. The last transition
// time is kept if the status is the same, and is now otherwise. The texts are bounded and
// printable, whatever they quote.
func (s Set) Mark(c v1alpha1.Condition, now time.Time) Set {
	c.Type, c.Reason = diag.Truncate(c.Type, maxTypeLength), diag.Truncate(c.Reason, maxReasonLength)
	c.Message = diag.TruncateLines(c.Message, maxMessageLength)
	out := slices.Clone(s)
	i := slices.IndexFunc(out, func(old v1alpha1.Condition) bool { return old.Type == c.Type })
	if i >= 0 && out[i].Status == c.Status && out[i].LastTransitionTime != nil {
		c.LastTransitionTime = out[i].LastTransitionTime
	} else {
		at := metav1.NewTime(now.UTC().Truncate(time.Second))
		c.LastTransitionTime = &at
	}
	if i < 0 {
		return append(out, c)
	}
	out[i] = c
	return out
}

// Remove returns a copy of the set without the condition of the type.
func (s Set) Remove(kind string) Set {
	return slices.DeleteFunc(slices.Clone(s), func(c v1alpha1.Condition) bool { return c.Type == kind })
}

// Summarize returns the root condition of several parts: True if all of them are, otherwise
// with the status, reason and message of the first that is False, or else of the first that
// is not True. A missing part counts as Unknown.
func (s Set) Summarize(root string, generation int64, parts ...string) v1alpha1.Condition {
	summary := v1alpha1.Condition{Type: root, Status: True, Reason: root, ObservedGeneration: generation}
	for _, part := range parts {
		c, ok := s.Get(part)
		if !ok {
			c = v1alpha1.Condition{Type: part, Status: Unknown, Reason: "AwaitingReconciliation", Message: "not reconciled yet"}
		}
		if c.Status == True || summary.Status == False || (summary.Status == Unknown && c.Status == Unknown) {
			continue
		}
		summary.Status, summary.Reason, summary.Message = c.Status, c.Reason, c.Message
	}
	return summary
}
