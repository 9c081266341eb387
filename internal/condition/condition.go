// Package condition is the algebra of conditions: marking, summarizing and
// comparing them. Conditions hold no timestamps of their own: a pass that finds
// what the last one found produces the same bytes.
//
// Pure: it decides from values alone.
package condition

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Set is a list of conditions in a stable order, at most one of a type.
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

// IsTrue says whether there is a condition of the type with status True.
func (s Set) IsTrue(kind string) bool {
	c, ok := s.Get(kind)
	return ok && c.Status == True
}

// Mark returns the set with the condition in it. The time of the last transition
// is kept while the status stays, and is now otherwise.
func (s Set) Mark(c v1alpha1.Condition, now time.Time) Set {
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

// Drop returns the set without conditions of the type.
func (s Set) Drop(kind string) Set {
	return slices.DeleteFunc(slices.Clone(s), func(c v1alpha1.Condition) bool { return c.Type == kind })
}

// Summarize returns the root condition that follows from its parts: True when
// all are, otherwise with the reason and message of the first that is False, or
// else of the first that isn't True.
func (s Set) Summarize(root string, generation int64, parts ...string) v1alpha1.Condition {
	summary := v1alpha1.Condition{Type: root, Status: True, Reason: root, ObservedGeneration: generation}
	for _, part := range parts {
		c, ok := s.Get(part)
		if !ok {
			c = v1alpha1.Condition{Type: part, Status: Unknown, Reason: "AwaitingReconciliation", Message: "not looked at yet"}
		}
		if c.Status == True || summary.Status == False || (summary.Status == Unknown && c.Status == Unknown) {
			continue
		}
		summary.Status, summary.Reason, summary.Message = c.Status, c.Reason, c.Message
	}
	return summary
}
