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

// fetcher reads what functions require from caches. What it has looked at wakes the
// composite when it changes.
type fetcher struct{ instance.ClusterState }

func (f fetcher) Resources(_ context.Context, s *fnv1.ResourceSelector) (objects []map[string]any, known bool, err error) {
	kind := schema.FromAPIVersionAndKind(s.GetApiVersion(), s.GetKind())
	namespace := s.GetNamespace()
	if namespaced, known := f.Namespaced(kind); known && !namespaced {
		namespace = "" // which functions may say of everything
	}
	var (
		found []*unstructured.Unstructured
		blind *plan.Unreadable
	)
	if name := s.GetMatchName(); name != "" {
		look := f.Object(plan.Need{Kind: kind, Namespace: namespace, Name: name})
		blind = look.Unreadable
		if look.Object != nil {
			found = append(found, look.Object)
		}
	} else {
		found, blind = f.Matching(kind, namespace, labels.SelectorFromSet(s.GetMatchLabels().GetLabels()))
	}
	if blind != nil {
		return nil, false, unreadable(*blind)
	}
	for _, o := range found {
		objects = append(objects, o.Object)
	}
	return objects, true, nil
}

// unreadable is why something can't be read, unless it will be in a moment.
func unreadable(blind plan.Unreadable) error {
	if blind.Reason == plan.Syncing {
		return nil
	}
	return errors.New(blind.Message)
}

func (f fetcher) Schema(_ context.Context, s *fnv1.SchemaSelector) (doc map[string]any, known bool, err error) {
	doc, _, err = f.ClusterState.Schema(schema.FromAPIVersionAndKind(s.GetApiVersion(), s.GetKind()))
	return doc, err == nil, err
}
