package graph

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
)

// applied is what an engine last applied of an object, so that applying it again changes
// nothing: to want less would remove fields, and to want all would take them from their
// managers. Where managed fields don't name the engine, it is everything but the status.
func applied(observed *unstructured.Unstructured) *unstructured.Unstructured {
	source := runtime.DeepCopyJSON(observed.Object)
	out := &unstructured.Unstructured{Object: map[string]any{}}
	if fields, has := appliedFields(observed); has {
		out.Object, _ = ownership.Extract(source, fields).(map[string]any)
	} else {
		out.Object = source
		delete(out.Object, "status")
	}
	metadata, _ := out.Object["metadata"].(map[string]any)
	kept := map[string]any{}
	for _, field := range []string{"labels", "annotations"} {
		if v, ok := metadata[field]; ok {
			kept[field] = v
		}
	}
	out.Object["apiVersion"], out.Object["kind"], out.Object["metadata"] = observed.GetAPIVersion(), observed.GetKind(), kept
	out.SetName(observed.GetName())
	if namespace := observed.GetNamespace(); namespace != "" {
		out.SetNamespace(namespace)
	}
	withoutMarks(out)
	return out
}

// marks are what other engines write on a resource of a composition themselves.
var marks = []string{
	"crossplane.io/composite", "crossplane.io/claim-name", "crossplane.io/claim-namespace", "crossplane.io/composition-resource-name",
	"kubectl.kubernetes.io/last-applied-configuration",
}

// withoutMarks takes off what engines write.
func withoutMarks(o *unstructured.Unstructured) {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	ourLabels, ourAnnotations := inventory.Marks(o)
	for _, key := range slices.Concat(ourLabels, ourAnnotations, marks, []string{v1alpha1.AppliedAnnotation}) {
		delete(labels, key)
		delete(annotations, key)
	}
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
}

// composers begins the names of managers with which other engines apply resources.
const composers = "apiextensions.crossplane.io/composed"

// appliedFields are the fields that an engine has applied; false if no entry of one is there.
func appliedFields(o *unstructured.Unstructured) (*fieldpath.Set, bool) {
	for e := range ownership.Entries(o) {
		isEngine := e.Manager == v1alpha1.ChildManager || strings.HasPrefix(e.Manager, composers)
		if isEngine && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			if fields := e.Fields(); !fields.Empty() {
				return fields, true
			}
		}
	}
	return nil, false
}
