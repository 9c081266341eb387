package cli

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	engine "github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// onceRead is what a composer reads besides its facts, read from the API server or a record when it is asked for. Secrets are not read: each
// is there, without data. Schemas are not read either: functions compose without them.
type onceRead struct {
	instance
	ctx    context.Context
	memory any
}

var _ engine.ClusterState = (*onceRead)(nil)

func isSecret(gvk schema.GroupVersionKind) bool { return gvk.Group == "" && gvk.Kind == "Secret" }

// Object implements instance.ClusterState.
func (r *onceRead) Object(need plan.Need) (found plan.Lookup) {
	if isSecret(need.Kind) {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(need.Kind)
		o.SetNamespace(need.Namespace)
		o.SetName(need.Name)
		return plan.Lookup{Object: o}
	}
	mapping, unreadable := r.mapping(need.Kind)
	if unreadable != nil {
		return plan.Lookup{Unreadable: unreadable}
	}
	o, err := r.Client.Resource(mapping.Resource).Namespace(need.Namespace).Get(r.ctx, need.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return plan.Lookup{}
	case err != nil:
		return plan.Lookup{Unreadable: unreadableNow(err)}
	}
	return plan.Lookup{Object: o}
}

// Matching implements instance.ClusterState.
func (r *onceRead) Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, *plan.Unreadable) {
	if isSecret(kind) {
		return nil, nil
	}
	mapping, unreadable := r.mapping(kind)
	if unreadable != nil {
		return nil, unreadable
	}
	found, err := r.List(r.ctx, reader.Query{Resource: mapping.Resource, Namespace: namespace, Labels: selector.String()})
	if err != nil {
		return nil, unreadableNow(err)
	}
	return found, nil
}

func (r *onceRead) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, *plan.Unreadable) {
	mapping, err := r.Kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, unreadableNow(err)
	}
	return mapping, nil
}

func unreadableNow(err error) *plan.Unreadable {
	return &plan.Unreadable{Problem: plan.Problem{Reason: plan.Unavailable, Message: err.Error()}}
}

// Namespaced implements instance.ClusterState.
func (r *onceRead) Namespaced(kind schema.GroupVersionKind) (namespaced, known bool) {
	mapping, unreadable := r.mapping(kind)
	if unreadable != nil {
		return false, false
	}
	return !reader.IsClusterScoped(mapping), true
}

// Schema implements instance.ClusterState.
func (r *onceRead) Schema(schema.GroupVersionKind) (doc map[string]any, known bool, err error) {
	return nil, false, nil
}

// Round implements instance.ClusterState.
func (r *onceRead) Round() int { return 0 }

// Keys implements instance.ClusterState.
func (r *onceRead) Keys() inventory.Keys { return inventory.Keys{} }

// Memory implements instance.ClusterState.
func (r *onceRead) Memory() *any { return &r.memory }
