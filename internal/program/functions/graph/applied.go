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

// lastApplied is the part of an object that the engine last applied, so applying it again changes nothing: applying
// less would remove fields, and applying the whole object would take fields over from other managers. Without managed
// fields of the engine, it is everything except the status.
func lastApplied(observed *unstructured.Unstructured) *unstructured.Unstructured {
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
	removeEngineKeys(out)
	return out
}

// engineKeys are the labels and annotations that engines write to composed resources.
var engineKeys = []string{
	"crossplane.io/composite", "crossplane.io/claim-name", "crossplane.io/claim-namespace", "crossplane.io/composition-resource-name",
	"kubectl.kubernetes.io/last-applied-configuration",
}

func removeEngineKeys(o *unstructured.Unstructured) {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	ourLabels, ourAnnotations := inventory.Marks(o)
	for _, key := range slices.Concat(ourLabels, ourAnnotations, engineKeys, []string{v1alpha1.AppliedAnnotation}) {
		delete(labels, key)
		delete(annotations, key)
	}
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
}

// composerManagerPrefix begins the names of the field managers of Crossplane's engine.
const composerManagerPrefix = "apiextensions.crossplane.io/composed"

// appliedFields returns false if the engine has applied none.
func appliedFields(o *unstructured.Unstructured) (*fieldpath.Set, bool) {
	for e := range ownership.Entries(o) {
		isEngine := e.Manager == v1alpha1.ChildManager || strings.HasPrefix(e.Manager, composerManagerPrefix)
		if isEngine && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			if fields := e.Fields(); !fields.Empty() {
				return fields, true
			}
		}
	}
	return nil, false
}
