package protection

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/protection/lifecycle"
)

var refusedKind = espalier.GroupVersion.WithKind(espalier.RefusedDeletionKind)

// RefusedDeletions stores the records of refused deletions as objects of the cluster that only the controllers write.
// A deletion is replayed for such a record only: a user who may create Usages, or change the used object, might not
// be allowed to delete it.
type RefusedDeletions struct {
	Cluster interface {
		Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
		Create(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error)
		Update(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error)
		Delete(ctx context.Context, o *unstructured.Unstructured) error
		MayDelete(ctx context.Context, user authenticationv1.UserInfo, o *unstructured.Unstructured) (bool, error)
	}
}

// RefusedDeletion is a stored record.
type RefusedDeletion struct {
	stored *unstructured.Unstructured
	spec   espalier.RefusedDeletionSpec
}

func (r *RefusedDeletion) facts() *lifecycle.Refused {
	if r == nil {
		return nil
	}
	return &lifecycle.Refused{UID: r.spec.Object.UID, Policy: r.spec.PropagationPolicy, User: r.spec.User.Username}
}

// Record records that a user's deletion of an object was refused. It replaces the record of an
// earlier one.
func (d RefusedDeletions) Record(ctx context.Context, o *unstructured.Unstructured, policy metav1.DeletionPropagation, user authenticationv1.UserInfo) error {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&espalier.RefusedDeletionSpec{
		Object: espalier.RefusedDeletionObject{
			APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
		},
		PropagationPolicy: policy, User: user,
	})
	if err != nil {
		return fmt.Errorf("encode the refused deletion: %w", err)
	}
	wanted := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	wanted.SetGroupVersionKind(refusedKind)
	wanted.SetName(refusedName(object.KeyOf(o)))
	current, err := d.Cluster.Get(ctx, refusedKind, "", wanted.GetName())
	switch {
	case kube.IsObjectNotFound(err, wanted.GetName()):
		_, err = d.Cluster.Create(ctx, wanted, FieldManager)
		if kube.IsNameTaken(err) {
			err = nil // another replica of the webhook has recorded another request at the same time
		}
	case err != nil:
	case object.Digest(current.Object["spec"]) == object.Digest(spec):
		return nil
	default:
		_, err = d.Cluster.Update(ctx, wanted, current.GetUID(), FieldManager)
	}
	if err != nil {
		return fmt.Errorf("record the refused deletion: %w", err)
	}
	return nil
}

// Find implements Refusals.
func (d RefusedDeletions) Find(ctx context.Context, key object.Key) (*RefusedDeletion, error) {
	name := refusedName(key)
	stored, err := d.Cluster.Get(ctx, refusedKind, "", name)
	switch {
	case kube.IsObjectNotFound(err, name), kube.IsNoKindMatch(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read whether a deletion of %s was refused: %w", key, err)
	}
	out := &RefusedDeletion{stored: stored}
	spec, _, _ := unstructured.NestedMap(stored.Object, "spec")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &out.spec); err != nil {
		return nil, fmt.Errorf("decode RefusedDeletion %s: %w", name, err)
	}
	return out, nil
}

// Forget implements Refusals.
func (d RefusedDeletions) Forget(ctx context.Context, r *RefusedDeletion) error {
	return d.Cluster.Delete(ctx, r.stored)
}

// MayDelete implements Refusals.
func (d RefusedDeletions) MayDelete(ctx context.Context, r *RefusedDeletion, o *unstructured.Unstructured) (bool, error) {
	allowed, err := d.Cluster.MayDelete(ctx, r.spec.User, o)
	if err != nil {
		return false, fmt.Errorf("determine whether user %s may delete %s: %w", r.spec.User.Username, object.KeyOf(o), err)
	}
	return allowed, nil
}

// refusedName is the name of an object's record. The object's incarnation is in the spec.
func refusedName(key object.Key) string { return object.Digest(key) }
