package instance

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/writer"
)

// A namespace that is deleted takes the Roles in it along, in no order, and nobody can create new ones. An account with
// permissions in that namespace alone could neither see that the children are gone nor remove the finalizer of the
// instance, and the namespace would never be gone. So the controllers do for it, with their own permissions, what the
// deletion of the namespace implies.

// Controllers is the API server with the controllers' own permissions, which are used in namespaces
// that are being deleted and are gone. A *kube.Client is one.
type Controllers interface {
	writer.Cluster
	Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	WasOrphaned(ctx context.Context, o *unstructured.Unstructured) (bool, error)
}

// namespaceState is what is known of a namespace in one reconcile.
type namespaceState struct{ exists, terminating bool }

// It is read once in a reconcile. One that cannot be read exists.
func (r *Reconciler) stateOfNamespace(ctx context.Context, s *subject, name string) namespaceState {
	if r.Controllers == nil || name == "" {
		return namespaceState{exists: true}
	}
	if known, ok := s.namespaces.states[name]; ok {
		return known
	}
	found, err := r.Controllers.Get(ctx, plan.NamespaceKind, "", name)
	state := namespaceState{exists: !apierrors.IsNotFound(err), terminating: err == nil && found.GetDeletionTimestamp() != nil}
	if s.namespaces.states == nil {
		s.namespaces.states = map[string]namespaceState{}
	}
	s.namespaces.states[name] = state
	return state
}

// There is nothing to wait for in a namespace that the account is not allowed to read if it does not exist, or is
// deleted with the instance and its objects there.
func (r *Reconciler) isGoneWithNamespace(ctx context.Context, s *subject, namespace string) bool {
	state := r.stateOfNamespace(ctx, s, namespace)
	return !state.exists || state.terminating && r.isDeletedWithNamespace(ctx, s) && namespace == s.key.Namespace
}

func (r *Reconciler) isDeletedWithNamespace(ctx context.Context, s *subject) bool {
	return s.instance.GetDeletionTimestamp() != nil && r.stateOfNamespace(ctx, s, s.key.Namespace).terminating
}
