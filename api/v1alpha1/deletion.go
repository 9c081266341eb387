package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Deletion sets limits for the deletion of instances. An instance's annotations
// go before it.
type Deletion struct {
	// Timeout is how long a deletion may take before the instance is reported as
	// Stalled with reason DeletionTimeout. The deletion goes on all the same.
	// Without it there is no limit.
	//
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// ForceAfter is how long an object may block a deletion before it is left behind,
	// as it is, with an event. Without it an object is left behind only if an
	// annotation of the instance names it.
	//
	// +optional
	ForceAfter *metav1.Duration `json:"forceAfter,omitempty"`
}

// DeletionPolicy says what becomes of an object that isn't wanted any more.
type DeletionPolicy string

// Policies of deletion.
const (
	// DeletionDelete deletes it.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionOrphan leaves it in place, without the labels of its instance.
	DeletionOrphan DeletionPolicy = "Orphan"
	// DeletionOrphaned is the dialect's own word for DeletionOrphan: it is read as that.
	DeletionOrphaned DeletionPolicy = "Orphaned"
	// DeletionRetain leaves it in place as it is: an instance of the same name
	// takes it on again.
	DeletionRetain DeletionPolicy = "Retain"
)

// Plain is the policy by the one word that is kept of it.
func (p DeletionPolicy) Plain() DeletionPolicy {
	if p == DeletionOrphaned {
		return DeletionOrphan
	}
	return p
}

// Valid says whether there is such a policy, by its plain word.
func (p DeletionPolicy) Valid() bool {
	return p == DeletionDelete || p == DeletionOrphan || p == DeletionRetain
}

// ParseDeletionPolicy reads a policy as people write it, in whatever case.
func ParseDeletionPolicy(text string) (policy DeletionPolicy, known bool) {
	for _, p := range []DeletionPolicy{DeletionDelete, DeletionOrphan, DeletionOrphaned, DeletionRetain} {
		if strings.EqualFold(text, string(p)) {
			return p.Plain(), true
		}
	}
	return "", false
}
