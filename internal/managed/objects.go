package managed

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
)

// Get reads an object for the provider's client; nil if it does not exist. A change of it
// brings another reconcile.
func (s *reconcileState) Get(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	found, state := s.lease.Object(kind, namespace, name)
	if found != nil {
		return found.DeepCopy(), nil
	}
	if err := checkSynced(state); err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	return nil, nil
}

// It is an error unless an object that the cache lacks is known not to exist.
func checkSynced(state watch.State) error {
	switch state.Phase {
	case watch.Synced:
		return nil
	case watch.Unavailable:
		return fmt.Errorf("cannot be read: %s: %s", state.Reason, state.Message)
	default:
	}
	return port.ErrNotSynced
}

// Owner returns the managed resource that an external resource is bound to, other than by
// observing it only; nil if there is none. A change of that brings another reconcile.
func (s *reconcileState) Owner(key external.Key) (*external.Owner, error) {
	name := execute.BindingName(&binding.BindingSpec{Key: binding.BindingKey{Scope: key.Scope, Type: key.Type, Name: key.Name}})
	found, state := s.lease.Child(BindingKind, "", name)
	if found == nil {
		if err := checkSynced(state); err != nil {
			return nil, fmt.Errorf("read Binding %s: %w", name, err)
		}
		return nil, nil
	}
	spec, err := readSpec(found)
	if err != nil {
		return nil, err
	}
	return operation.Owner(*spec), nil
}
