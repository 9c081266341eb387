package instance

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// keylessLease is a Lease for which the signing key doesn't exist: the account of an instance may be able to read all
// Secrets, and a definition that reads this one could show it to any user.
type keylessLease struct{ Lease }

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
	return withoutSigningKey(kind, found), state
}

// Children implements Lease.
func (l keylessLease) Children(kind schema.GroupVersionKind, owner string) ([]*unstructured.Unstructured, watch.State) {
	found, state := l.Lease.Children(kind, owner)
	return withoutSigningKey(kind, found), state
}

// ChildrenIn implements Lease.
func (l keylessLease) ChildrenIn(kind schema.GroupVersionKind, namespaces []string, owner string) ([]*unstructured.Unstructured, watch.State) {
	found, state := l.Lease.ChildrenIn(kind, namespaces, owner)
	return withoutSigningKey(kind, found), state
}

func withoutSigningKey(kind schema.GroupVersionKind, found []*unstructured.Unstructured) []*unstructured.Unstructured {
	isKey := func(o *unstructured.Unstructured) bool { return isSigningKey(kind, o.GetName()) }
	if slices.ContainsFunc(found, isKey) {
		return slices.DeleteFunc(slices.Clone(found), isKey)
	}
	return found
}

// The object has the kind and name of the signing key, in any namespace; nil for other objects. What the lease hides
// must never become a child.
func signingKeyProblem(o *unstructured.Unstructured) *plan.Problem {
	if !isSigningKey(o.GroupVersionKind(), o.GetName()) {
		return nil
	}
	return &plan.Problem{
		Reason:  plan.NotOwned,
		Message: "Secrets of the name " + v1alpha1.SigningKeySecret + " are reserved for the signing key: none is created, adopted or changed. Give it another name",
	}
}

func isSigningKey(kind schema.GroupVersionKind, name string) bool {
	return kind == inventory.SecretKind && name == v1alpha1.SigningKeySecret
}
