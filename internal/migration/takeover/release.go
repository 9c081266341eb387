package takeover

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// ownPrefix is the prefix of Espalier's annotations.
const ownPrefix = "espalier.dev/"

// userAnnotations are Espalier's annotations that users set. They stay: another engine does not
// read them.
var userAnnotations = []string{
	v1alpha1.ProtectAnnotation, v1alpha1.DeletionPolicyAnnotation, v1alpha1.OwnerReferencesAnnotation,
	v1alpha1.DeletionTimeoutAnnotation, v1alpha1.ForceAfterAnnotation, v1alpha1.ForceDeleteAnnotation,
	v1alpha1.InstanceOverridesAnnotation, v1alpha1.ClaimableAnnotation, v1alpha1.RevisionAnnotation,
}

// Released returns the object as the engine needs it to continue: the engine's field managers
// own the fields of Espalier's, and Espalier's labels, annotations and owner references are
// removed. Graph is the manager with which kro applies the objects of the Graph that the object is of; empty for other
// objects. Changed reports whether the result differs from o, which is not modified.
func Released(o *unstructured.Unstructured, engine managedfields.Engine, graph string) (out *unstructured.Unstructured, changed bool) {
	entries, changed := managedfields.Restore(o, engine, graph)
	out = o.DeepCopy()
	out.SetManagedFields(entries)
	labels, annotations := out.GetLabels(), out.GetAnnotations()
	drop := func(from map[string]string, key string) {
		if _, ok := from[key]; ok {
			delete(from, key)
			changed = true
		}
	}
	// A child of a graph stays with Espalier or kro, even if it is a composite or a claim.
	nested := engine == managedfields.Crossplane && managedfields.IsOfGraph(o)
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
		for _, key := range applySetAnnotations {
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
		drop(annotations, v1alpha1.ApplySetHashAnnotation) // kro's own has the prefix, and hashes other input
	}
	if graph != "" && engine == managedfields.KRO {
		ownLabels, ownAnnotations := inventory.Marks(o)
		for _, key := range slices.Concat(ownLabels, ownAnnotations) {
			if isItem := inventory.ItemOf(o) != nil; !slices.Contains(marksOfGraph, key) && (!isItem || key != v1alpha1.InstanceIDLabel) {
				drop(labels, key)
				drop(annotations, key)
			}
		}
	}
	if inventory.IsGraph(o) && engine == managedfields.KRO { // kro keeps no ApplySet for it
		for _, key := range []string{v1alpha1.ApplySetIDLabel, v1alpha1.OwnedLabel, v1alpha1.VersionLabel} {
			drop(labels, key)
		}
		for _, key := range applySetAnnotations {
			drop(annotations, key)
		}
	}
	out.SetLabels(orNil(labels))
	out.SetAnnotations(orNil(annotations))
	refs := slices.DeleteFunc(out.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return isOwnReference(o, r, engine) })
	if len(refs) != len(out.GetOwnerReferences()) {
		out.SetOwnerReferences(refs)
		changed = true
	}
	return out, changed
}

var applySetAnnotations = []string{
	v1alpha1.ApplySetToolingAnnotation, v1alpha1.ApplySetKindsAnnotation, v1alpha1.ApplySetNamespacesAnnotation, v1alpha1.ApplySetHashAnnotation,
}

// marksOfGraph are the marks that kro sets on the objects of its Graphs too. On items of collections it also sets
// v1alpha1.InstanceIDLabel.
var marksOfGraph = []string{
	v1alpha1.NodeIDLabel, v1alpha1.CollectionIndexLabel, v1alpha1.CollectionSizeLabel,
	v1alpha1.NodePathAnnotation, v1alpha1.ApplyOrderAnnotation, v1alpha1.PolicyAnnotation,
}

// orNil returns nil for an empty map, as the API server stores it.
func orNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// isOwnReference reports whether Espalier set the owner reference: to the
// CustomResourceDefinition of the object's instance, or, in kro's dialect, to the instance.
func isOwnReference(o *unstructured.Unstructured, r metav1.OwnerReference, engine managedfields.Engine) bool {
	if !isComposed(o) || engine == managedfields.Crossplane && managedfields.IsOfGraph(o) {
		return false
	}
	labels := o.GetLabels()
	return r.Kind == "CustomResourceDefinition" && strings.HasPrefix(r.APIVersion, "apiextensions.k8s.io/") ||
		engine == managedfields.KRO && (r.Controller == nil || !*r.Controller) &&
			r.Kind == labels[v1alpha1.InstanceKindLabel] && object.HashedLabelValue(r.Name) == labels[v1alpha1.InstanceNameLabel]
}

// isComposed reports whether Espalier composes the object.
func isComposed(o *unstructured.Unstructured) bool { return inventory.AppliedDigest(o) != "" }

// operation is an operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Patch returns the JSON patch of the metadata and the spec that turns one state of an object into another.
// The API server rejects it with a conflict if the object has changed in between.
func Patch(from, to *unstructured.Unstructured) ([]byte, error) {
	patch := []operation{
		{"replace", "/metadata/resourceVersion", from.GetResourceVersion()},
		{"replace", "/metadata/managedFields", to.GetManagedFields()},
	}
	old, _, _ := unstructured.NestedMap(from.Object, "metadata")
	current, _, _ := unstructured.NestedMap(to.Object, "metadata")
	for _, field := range []string{"labels", "annotations", "ownerReferences"} {
		before, inOld := old[field]
		after, inCurrent := current[field]
		switch {
		case inOld && !inCurrent:
			patch = append(patch, operation{Op: "remove", Path: "/metadata/" + field})
		case inOld && !equal(before, after):
			patch = append(patch, operation{"replace", "/metadata/" + field, after})
		}
	}
	if spec := to.Object["spec"]; spec != nil && !equal(from.Object["spec"], spec) {
		patch = append(patch, operation{"replace", "/spec", spec})
	}
	return json.Marshal(patch)
}

// StatusPatch returns the JSON patch of the status of an instance or definition that removes what Espalier alone sets and no
// other engine would ever change: kstatus would take it for current. It is nil if there is nothing to remove. The API server
// rejects the patch with a conflict if the object has changed in between.
func StatusPatch(o *unstructured.Unstructured) ([]byte, error) {
	patch := []operation{{"replace", "/metadata/resourceVersion", o.GetResourceVersion()}}
	if observed, there, _ := unstructured.NestedInt64(o.Object, "status", report.ObservedGenerationField); there && observed >= 0 { // or it is the default
		patch = append(patch, operation{Op: "remove", Path: "/status/" + report.ObservedGenerationField})
	}
	own := []string{condition.TypeReconciling, condition.TypeStalled, v1alpha1.DefinitionFieldsStored}
	if slices.Contains(withoutReady, o.GroupVersionKind().GroupKind()) {
		own = append(own, apiextensions.TypeReady)
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for i, c := range slices.Backward(conditions) {
		fields, _ := c.(map[string]any)
		if kind, _ := fields["type"].(string); slices.Contains(own, kind) {
			patch = append(patch, operation{Op: "remove", Path: "/status/conditions/" + strconv.Itoa(i)})
		}
	}
	if len(patch) == 1 {
		return nil, nil
	}
	return json.Marshal(patch)
}

// withoutReady are the kinds to which only Espalier adds Ready.
var withoutReady = []schema.GroupKind{
	{Group: apiextensions.GroupVersion.Group, Kind: apiextensions.DefinitionKind}, {Group: apiextensions.GroupVersion.Group, Kind: "CompositionRevision"},
	{Group: "pkg.crossplane.io", Kind: "Function"}, {Group: "pkg.crossplane.io", Kind: "FunctionRevision"},
}

func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
