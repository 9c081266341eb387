package takeover

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
)

// ownPrefix begins the annotations of Espalier.
const ownPrefix = "espalier.dev/"

// userAnnotations are the annotations of Espalier that people put on. They stay: another engine
// doesn't read them.
var userAnnotations = []string{
	v1alpha1.ProtectAnnotation, v1alpha1.DeletionPolicyAnnotation, v1alpha1.OwnerReferencesAnnotation,
	v1alpha1.DeletionTimeoutAnnotation, v1alpha1.ForceAfterAnnotation, v1alpha1.ForceDeleteAnnotation,
}

// Released is an object as the engine needs it to go on with it: the engine's field
// managers own what Espalier's do, and Espalier's marks are gone. Changed says whether there
// was anything to do. What it is given isn't changed.
func Released(o *unstructured.Unstructured, engine managedfields.Engine) (out *unstructured.Unstructured, changed bool) {
	entries, changed := managedfields.Restore(o, engine)
	out = o.DeepCopy()
	out.SetManagedFields(entries)
	labels, annotations := out.GetLabels(), out.GetAnnotations()
	drop := func(from map[string]string, key string) {
		if _, has := from[key]; has {
			delete(from, key)
			changed = true
		}
	}
	nested := engine == managedfields.Crossplane && managedfields.IsOfGraph(o) // which stays Espalier's, or kro's
	for key := range annotations {
		if strings.HasPrefix(key, ownPrefix) && !slices.Contains(userAnnotations, key) && !nested {
			drop(annotations, key)
		}
	}
	if engine == managedfields.Crossplane {
		if !nested {
			drop(annotations, v1alpha1.ApplyOrderAnnotation)
			drop(labels, v1alpha1.ApplySetPartOfLabel)
			drop(labels, v1alpha1.NodeIDLabel)
		}
		for _, key := range []string{
			v1alpha1.ApplySetToolingAnnotation, v1alpha1.ApplySetKindsAnnotation,
			v1alpha1.ApplySetNamespacesAnnotation, v1alpha1.ApplySetHashAnnotation,
		} {
			drop(annotations, key)
		}
		if managedfields.IsConnection(o) {
			drop(annotations, apiextensions.CompositionResourceNameAnnotation)
			for _, key := range []string{apiextensions.CompositeLabel, apiextensions.ClaimNameLabel, apiextensions.ClaimNamespaceLabel} {
				drop(labels, key)
			}
		}
		drop(labels, v1alpha1.ApplySetIDLabel)
	} else if hash := annotations[v1alpha1.ApplySetHashAnnotation]; !strings.HasPrefix(hash, "sha256:") {
		drop(annotations, v1alpha1.ApplySetHashAnnotation) // kro's begins so, and is made of something else
	}
	out.SetLabels(orNil(labels))
	out.SetAnnotations(orNil(annotations))
	refs := slices.DeleteFunc(out.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return isOurs(o, r, engine) })
	if len(refs) != len(out.GetOwnerReferences()) {
		out.SetOwnerReferences(refs)
		changed = true
	}
	return out, changed
}

// orNil is no map for an empty one, as the API server stores it.
func orNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// isOurs says whether an object has an owner reference because of Espalier: to the kind of
// its instance; and, of kro's objects, to the instance.
func isOurs(o *unstructured.Unstructured, r metav1.OwnerReference, engine managedfields.Engine) bool {
	if !isMarked(o) || engine == managedfields.Crossplane && managedfields.IsOfGraph(o) {
		return false
	}
	labels := o.GetLabels()
	return r.Kind == "CustomResourceDefinition" && strings.HasPrefix(r.APIVersion, "apiextensions.k8s.io/") ||
		engine == managedfields.KRO && (r.Controller == nil || !*r.Controller) &&
			r.Kind == labels[v1alpha1.InstanceKindLabel] && r.Name == labels[v1alpha1.InstanceNameLabel]
}

// isMarked says whether an object is composed by Espalier.
func isMarked(o *unstructured.Unstructured) bool { return inventory.AppliedDigest(o) != "" }

// operation is a step of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Patch is the one write that makes one state of an object another: a JSON patch of its
// metadata, which the API server refuses if somebody has changed the object in between.
func Patch(from, to *unstructured.Unstructured) ([]byte, error) {
	patch := []operation{
		{"replace", "/metadata/resourceVersion", from.GetResourceVersion()},
		{"replace", "/metadata/managedFields", to.GetManagedFields()},
	}
	was, _, _ := unstructured.NestedMap(from.Object, "metadata")
	is, _, _ := unstructured.NestedMap(to.Object, "metadata")
	for _, field := range []string{"labels", "annotations", "ownerReferences"} {
		before, had := was[field]
		after, has := is[field]
		switch {
		case had && !has:
			patch = append(patch, operation{Op: "remove", Path: "/metadata/" + field})
		case had && !equal(before, after):
			patch = append(patch, operation{"replace", "/metadata/" + field, after})
		}
	}
	return json.Marshal(patch)
}

func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
