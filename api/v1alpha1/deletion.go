package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Deletion sets limits for the deletion of instances. An instance's annotations take
// precedence.
type Deletion struct {
	// Timeout is how long a deletion may take before the instance is reported as
	// Stalled with reason DeletionTimeout. The deletion is retried all the same. By default
	// there is no limit.
	//
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// ForceAfter is how long an object may block a deletion before it is left behind
	// unchanged, with an event. By default an object is left behind only if an annotation of
	// the instance names it.
	//
	// +optional
	ForceAfter *metav1.Duration `json:"forceAfter,omitempty"`
}

// DeletionPolicy is what happens to an object that is no longer desired.
type DeletionPolicy string

// Policies of deletion.
const (
	// DeletionDelete deletes it.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionOrphan leaves it in place, without the labels of its instance.
	DeletionOrphan DeletionPolicy = "Orphan"
	// DeletionOrphaned is the dialect's spelling of DeletionOrphan.
	DeletionOrphaned DeletionPolicy = "Orphaned"
	// DeletionRetain leaves it in place unchanged: an instance of the same name adopts it
	// again.
	DeletionRetain DeletionPolicy = "Retain"
)

// Plain returns the canonical spelling of the policy.
func (p DeletionPolicy) Plain() DeletionPolicy {
	if p == DeletionOrphaned {
		return DeletionOrphan
	}
	return p
}

// Valid reports whether the policy exists, in its canonical spelling.
func (p DeletionPolicy) Valid() bool {
	return p == DeletionDelete || p == DeletionOrphan || p == DeletionRetain
}

// ParseDeletionPolicy parses a policy in any spelling and case.
func ParseDeletionPolicy(text string) (policy DeletionPolicy, known bool) {
	for _, p := range []DeletionPolicy{DeletionDelete, DeletionOrphan, DeletionOrphaned, DeletionRetain} {
		if strings.EqualFold(text, string(p)) {
			return p.Plain(), true
		}
	}
	return "", false
}
