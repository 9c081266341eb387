package composite

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// fetcher reads required resources and schemas from caches. A change of what it has read
// enqueues the composite.
type fetcher struct {
	instance.ClusterState
	secrets *secretValues
}

func (f fetcher) Resources(_ context.Context, s *fnv1.ResourceSelector) (objects []map[string]any, known bool, err error) {
	kind := schema.FromAPIVersionAndKind(s.GetApiVersion(), s.GetKind())
	namespace := s.GetNamespace()
	if namespaced, known := f.Namespaced(kind); known && !namespaced {
		namespace = "" // functions may set one for any kind
	}
	var (
		found      []*unstructured.Unstructured
		unreadable *plan.Unreadable
	)
	if name := s.GetMatchName(); name != "" {
		lookup := f.Object(plan.Need{Kind: kind, Namespace: namespace, Name: name})
		unreadable = lookup.Unreadable
		if lookup.Object != nil {
			found = append(found, lookup.Object)
		}
	} else {
		found, unreadable = f.Matching(kind, namespace, labels.SelectorFromSet(s.GetMatchLabels().GetLabels()))
	}
	if unreadable != nil {
		return nil, false, fetchError(*unreadable)
	}
	for _, o := range found {
		f.secrets.addObject(o)
		objects = append(objects, o.Object)
	}
	return objects, true, nil
}

// fetchError is the error of an unreadable object; nil while its cache is syncing.
func fetchError(unreadable plan.Unreadable) error {
	if unreadable.Reason == plan.Syncing {
		return nil
	}
	return errors.New(unreadable.Message)
}

func (f fetcher) Schema(_ context.Context, s *fnv1.SchemaSelector) (doc map[string]any, known bool, err error) {
	doc, _, err = f.ClusterState.Schema(schema.FromAPIVersionAndKind(s.GetApiVersion(), s.GetKind()))
	return doc, err == nil, err
}
