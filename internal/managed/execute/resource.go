package execute

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// minPollInterval is the shortest interval that the poll-interval annotation can set.
const minPollInterval = time.Second

// ReadResource reads the part of a managed resource that decisions depend on. The poll
// interval is the default one, which an annotation can override.
func ReadResource(o *unstructured.Unstructured, poll time.Duration) operation.Resource {
	annotations := o.GetAnnotations()
	policies := policiesOf(o)
	legacy, _, _ := unstructured.NestedString(o.Object, "spec", "deletionPolicy")
	if own, err := time.ParseDuration(annotations[resource.PollIntervalAnnotation]); err == nil {
		poll = max(own, minPollInterval)
	}
	return operation.Resource{
		Owner: binding.BindingOwner{
			APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
		},
		Generation:      o.GetGeneration(),
		Deleting:        o.GetDeletionTimestamp() != nil,
		HasFinalizer:    slices.Contains(o.GetFinalizers(), resource.Finalizer),
		OtherFinalizers: slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == resource.Finalizer }),
		Paused:          annotations[resource.PausedAnnotation] == "true",
		Policies:        policies,
		DeletesExternal: resource.Deletes(policies, resource.DeletionPolicy(legacy)),
		ExternalName:    annotations[resource.ExternalNameAnnotation],
		AdoptUnmarked:   annotations[resource.AdoptAnnotation] == resource.AdoptIfUnmarked,
		Retry:           annotations[resource.RetryAnnotation],
		PollInterval:    poll,
		ChangedAt:       changedAt(o),
	}
}

// HasPollInterval reports whether an annotation of a managed resource sets its poll interval.
func HasPollInterval(o *unstructured.Unstructured) bool {
	_, err := time.ParseDuration(o.GetAnnotations()[resource.PollIntervalAnnotation])
	return err == nil
}

// changedAt is when a managed resource was created or its condition Synced or Ready has changed;
// zero if its generation is not the one that was reported.
func changedAt(o *unstructured.Unstructured) time.Time {
	at := o.GetCreationTimestamp().Time
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if c["type"] != resource.Synced && c["type"] != resource.Ready {
			continue
		}
		if generation, _, _ := unstructured.NestedInt64(c, "observedGeneration"); c["type"] == resource.Synced && generation != o.GetGeneration() {
			return time.Time{}
		}
		text, _ := c["lastTransitionTime"].(string)
		if changed, err := time.Parse(time.RFC3339, text); err == nil && changed.After(at) {
			at = changed
		}
	}
	return at
}

// They are nil, which allows everything, if none are set.
func policiesOf(o *unstructured.Unstructured) resource.Policies {
	raw, ok, _ := unstructured.NestedSlice(o.Object, "spec", "managementPolicies")
	if !ok {
		return nil
	}
	out := resource.Policies{}
	for _, item := range raw {
		text, _ := item.(string)
		out = append(out, resource.Action(text))
	}
	return out
}

// UnsetFields are the fields of chosen that neither spec.forProvider nor spec.initProvider sets. Fields of initProvider
// are set for the creation only, and late initialization leaves them alone.
func UnsetFields(o *unstructured.Unstructured, chosen map[string]any) map[string]any {
	wanted, _, _ := unstructured.NestedMap(o.Object, "spec", "forProvider")
	initial, _, _ := unstructured.NestedMap(o.Object, "spec", "initProvider")
	return MissingFields(initial, MissingFields(wanted, chosen))
}

// MissingFields are the fields of chosen that are not in wanted. A list counts as one value.
func MissingFields(wanted, chosen map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range chosen {
		has, set := wanted[key]
		below, isMap := value.(map[string]any)
		within, wasMap := has.(map[string]any)
		switch {
		case !set:
			out[key] = value
		case isMap && wasMap:
			if missing := MissingFields(within, below); len(missing) > 0 {
				out[key] = missing
			}
		}
	}
	return out
}
