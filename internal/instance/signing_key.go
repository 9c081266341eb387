package instance

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// keylessLease is a Lease for which the signing key doesn't exist: the account of an instance may be
// able to read all Secrets, and a definition that reads this one could show it to anybody.
type keylessLease struct{ Lease }

// openLease opens a lease for one reconcile of an instance.
func (r *Reconciler) openLease(key object.Key) Lease {
	return keylessLease{r.Lease(watch.Subscriber{Key: key})}
}

// Object implements Lease.
func (l keylessLease) Object(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State) {
	found, state := l.Lease.Object(kind, namespace, name)
	if isSigningKey(kind, name) {
		found = nil
	}
	return found, state
}

// Matching implements Lease.
func (l keylessLease) Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, watch.State) {
	found, state := l.Lease.Matching(kind, namespace, selector)
	isKey := func(o *unstructured.Unstructured) bool { return isSigningKey(kind, o.GetName()) }
	if slices.ContainsFunc(found, isKey) {
		found = slices.DeleteFunc(slices.Clone(found), isKey)
	}
	return found, state
}

func isSigningKey(kind schema.GroupVersionKind, name string) bool {
	return kind == inventory.SecretKind && name == v1alpha1.SigningKeySecret
}
