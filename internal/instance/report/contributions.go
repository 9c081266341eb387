package report

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// ContributionsField is the field of the status that records contributions.
const ContributionsField = "contributions"

// ManagedField is the field of a status that lists the objects of an instance.
const ManagedField = "managedResources"

// ReadContributions returns the contributions that an instance has recorded.
func ReadContributions(instance *unstructured.Unstructured) []v1alpha1.Contribution {
	var out []v1alpha1.Contribution
	if !read(instance, ContributionsField, &out) {
		return nil
	}
	return out
}

// ReadManaged returns the objects that the status of a Graph lists.
func ReadManaged(graph *unstructured.Unstructured) []v1alpha1.ManagedResource {
	var out []v1alpha1.ManagedResource
	if !read(graph, ManagedField, &out) {
		return nil
	}
	return out
}

// WithContributions returns a status with the contributions. The given one is not changed.
func WithContributions(status map[string]any, contributions []v1alpha1.Contribution) map[string]any {
	out := maps.Clone(status)
	if out == nil {
		out = map[string]any{}
	}
	delete(out, ContributionsField)
	if len(contributions) > 0 {
		out[ContributionsField] = toUnstructured(contributions)
	}
	return out
}
