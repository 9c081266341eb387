package managed

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/managed/port"
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

// checkSynced returns an error unless an object that the cache lacks is known not to exist.
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
