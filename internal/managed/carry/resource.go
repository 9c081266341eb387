package carry

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// fastestPoll bounds how often somebody may ask for a look.
const fastestPoll = time.Second

// ResourceOf reads what counts of a managed resource.
func ResourceOf(o *unstructured.Unstructured, poll time.Duration) operation.Resource {
	annotations := o.GetAnnotations()
	policies := policiesOf(o)
	legacy, _, _ := unstructured.NestedString(o.Object, "spec", "deletionPolicy")
	if own, err := time.ParseDuration(annotations[resource.PollIntervalAnnotation]); err == nil {
		poll = max(own, fastestPoll)
	}
	return operation.Resource{
		Owner: binding.BindingOwner{
			APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
		},
		Generation:   o.GetGeneration(),
		Deleting:     o.GetDeletionTimestamp() != nil,
		Claimed:      slices.Contains(o.GetFinalizers(), resource.Finalizer),
		KeptBy:       slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == resource.Finalizer }),
		Paused:       annotations[resource.PausedAnnotation] == "true",
		Policies:     policies,
		Deletes:      resource.Deletes(policies, resource.DeletionPolicy(legacy)),
		ExternalName: annotations[resource.ExternalNameAnnotation],
		Adopt:        annotations[resource.AdoptAnnotation] == resource.AdoptIfUnmarked,
		Retry:        annotations[resource.RetryAnnotation],
		Poll:         poll,
	}
}

// policiesOf reads the policies; nil where there are none, which are all.
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

// LateInit are the fields of chosen that nobody has set: those of spec.initProvider are
// set for the creation, and nobody's after that.
func LateInit(o *unstructured.Unstructured, chosen map[string]any) map[string]any {
	wanted, _, _ := unstructured.NestedMap(o.Object, "spec", "forProvider")
	initial, _, _ := unstructured.NestedMap(o.Object, "spec", "initProvider")
	return Unset(initial, Unset(wanted, chosen))
}

// Unset are the fields of chosen that are not in wanted. Lists are taken as a whole.
func Unset(wanted, chosen map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range chosen {
		has, set := wanted[key]
		below, isMap := value.(map[string]any)
		within, wasMap := has.(map[string]any)
		switch {
		case !set:
			out[key] = value
		case isMap && wasMap:
			if missing := Unset(within, below); len(missing) > 0 {
				out[key] = missing
			}
		}
	}
	return out
}
