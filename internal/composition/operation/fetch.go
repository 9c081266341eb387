package operation

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	opsv1alpha1 "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/composite"
	"github.com/espalier-dev/espalier/internal/kube"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")

// fetcher reads from the API server: an operation runs once, so nothing has to be watched for it.
type fetcher struct {
	Account
	kinds Kinds
	// deleted stands for the watched object if the operation is for its deletion; nil otherwise.
	deleted *unstructured.Unstructured
	// secrets have the values that functions are given.
	secrets composite.Secrets
}

// deletedObject is the object that functions get instead of a deleted one.
func deletedObject(op *opsv1alpha1.Operation) *unstructured.Unstructured {
	a := op.Annotations
	if a[opsv1alpha1.WatchedResourceVersionAnnotation] != opsv1alpha1.DeletedResourceVersion {
		return nil
	}
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(a[opsv1alpha1.WatchedAPIVersionAnnotation])
	o.SetKind(a[opsv1alpha1.WatchedKindAnnotation])
	o.SetNamespace(a[opsv1alpha1.WatchedNamespaceAnnotation])
	o.SetName(a[opsv1alpha1.WatchedNameAnnotation])
	o.SetResourceVersion(opsv1alpha1.DeletedResourceVersion)
	return o
}

// Resources implements pipeline.Fetcher.
func (f *fetcher) Resources(ctx context.Context, s *fnv1.ResourceSelector) (objects []map[string]any, known bool, err error) {
	kind, name, namespace := schema.FromAPIVersionAndKind(s.GetApiVersion(), s.GetKind()), s.GetMatchName(), s.GetNamespace()
	if d := f.deleted; d != nil && d.GroupVersionKind() == kind && d.GetName() == name && d.GetNamespace() == namespace {
		return []map[string]any{d.Object}, true, nil
	}
	resource, err := f.kinds.Resolve(ctx, kind)
	switch {
	case err != nil:
		return nil, false, err
	case !resource.Namespaced:
		namespace = ""
	case namespace == "" && name != "":
		return nil, false, fmt.Errorf("%s %s: the kind is in namespaces, and the requirement names none", kind.Kind, name)
	}
	if name == "" {
		all, err := f.Cluster.ListIn(ctx, kind, namespace, labels.SelectorFromSet(s.GetMatchLabels().GetLabels()).String())
		for i := range all {
			f.secrets.AddObject(&all[i])
			objects = append(objects, all[i].Object)
		}
		return objects, err == nil, err
	}
	o, err := f.Cluster.Get(ctx, kind, namespace, name)
	if kube.IsObjectNotFound(err, name) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	f.secrets.AddObject(o)
	return []map[string]any{o.Object}, true, nil
}

// Schema implements pipeline.Fetcher.
func (f *fetcher) Schema(ctx context.Context, s *fnv1.SchemaSelector) (doc map[string]any, known bool, err error) {
	kind, _, err := f.kinds.Lookup(ctx, schema.FromAPIVersionAndKind(s.GetApiVersion(), s.GetKind()))
	if err != nil || kind.Schema == nil {
		return nil, err == nil, err
	}
	raw, err := json.Marshal(kind.Schema)
	if err != nil {
		return nil, false, err
	}
	return doc, true, json.Unmarshal(raw, &doc)
}
