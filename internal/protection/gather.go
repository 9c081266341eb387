package protection

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/protection/lifecycle"
)

// gather reads the facts about a usage from caches. A change of what is read enqueues the
// usage.
func (r *Reconciler) gather(ctx context.Context, s *reconcileState) lifecycle.Facts {
	f := lifecycle.Facts{Usage: s.usage.Unstructured, Replayed: s.replayed}
	f.Use, _ = usage.Read(s.usage.Unstructured)
	r.gatherUsed(ctx, s, &f)
	r.gatherUser(ctx, s, &f)
	read := func(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
		o, _ := s.lease.Object(kind, namespace, name)
		return o
	}
	f.Use.Relation = usage.RelationOf(f.Of.Object, f.By.Object, r.Keys.InstanceOf, read)
	if f.Of.Object != nil && f.By.Object != nil {
		r.Index.SetRelation(f.Use, f.Use.Relation)
	}
	if f.Use.Deleting && !f.IsOutsideNamespace() {
		f.DeletedWithOwner = isDeletedWithOwner(s.usage.Unstructured, r.Keys.InstanceOf, read)
		f.Circular = f.DeletedWithOwner && r.Index.Circular(f.Use)
		if f.Of.Object != nil && !f.WaitsForUser() {
			f.LastUsage = r.Index.SetReleased(f.Use, object.KeyOf(f.Of.Object))
		}
	}
	return f
}

// gatherUsed looks up the used object. In another namespace it is looked up only to remove what a former release has
// written; that has a finalizer.
func (r *Reconciler) gatherUsed(ctx context.Context, s *reconcileState, f *lifecycle.Facts) {
	of := f.Use.Of
	f.OfClusterScoped = r.isOutOfScope(ctx, s, of.Ref)
	switch {
	case f.IsOutsideNamespace():
		if of.Name != "" && slices.Contains(s.usage.GetFinalizers(), v1beta1.Finalizer) {
			f.Of = r.find(ctx, s, of.Ref)
			r.gatherOtherUsages(s, f)
		} else {
			r.Index.Forget(s.key)
		}
	case of.Name != "":
		f.Of = r.find(ctx, s, of.Ref)
	case of.Selector != nil && !f.Use.Deleting:
		f.OfSelected = r.findSelected(ctx, s, of)
	}
}

// gatherOtherUsages looks up the usages of an object that the usage no longer protects. A change enqueues the usage.
func (r *Reconciler) gatherOtherUsages(s *reconcileState, f *lifecycle.Facts) {
	if f.Of.Object == nil {
		return
	}
	key := object.KeyOf(f.Of.Object)
	uses, unreadable := r.Index.Subscribe(s.key, []object.Key{key})
	switch {
	case unreadable == nil:
		f.LastUsage = !slices.ContainsFunc(uses[key], func(u usage.Usage) bool { return !u.Released })
	case unreadable.Reason == plan.Syncing:
		f.Of = lifecycle.Lookup{Unreadable: lifecycle.Syncing}
	default:
		f.Of = lifecycle.Lookup{Unreadable: unreadable.Message}
	}
}

func (r *Reconciler) gatherUser(ctx context.Context, s *reconcileState, f *lifecycle.Facts) {
	by := f.Use.By
	if by == nil || f.IsOutsideNamespace() {
		return
	}
	f.ByClusterScoped = r.isOutOfScope(ctx, s, by.Ref)
	switch {
	case f.ByClusterScoped:
	case by.Name != "":
		f.By = r.find(ctx, s, by.Ref)
	case by.Selector != nil && !f.Use.Deleting:
		f.BySelected = r.findSelected(ctx, s, *by)
	}
}

// readUser reads the using object of a usage that is about to be deleted, because the caches lack that object: it may
// have been created a moment ago, and another replica has claimed the usage for it.
func (r *Reconciler) readUser(ctx context.Context, s *reconcileState, f lifecycle.Facts) error {
	s.userRead = true
	kind, namespace, _ := r.resolve(ctx, f.Use.By.Ref)
	if by := f.By.Object; by != nil && by.GetUID() == f.Use.ByUID {
		return nil // it contains the used object
	}
	if _, err := r.Kinds.Resolve(ctx, kind); err != nil {
		return nil // the kind is gone
	}
	if _, err := r.Cache.Refresh(ctx, kind, namespace, f.Use.By.Name); err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("read the using object: %w", err)
	}
	return nil
}

// gatherRefused reads the record of a refused deletion of the used object, once, when the last usage of the object
// ends. If a deletion is recorded, it reads the object again: the event of the usage may come before the event of the
// annotation, and a replay that was cancelled deletes nothing.
func (r *Reconciler) gatherRefused(ctx context.Context, s *reconcileState, f *lifecycle.Facts) error {
	isLast := f.LastUsage || f.Of.Object == nil && f.Of.Unreadable == ""
	if !f.Use.Deleting || f.IsOutsideNamespace() || f.Use.Of.Name == "" || !isLast || f.WaitsForUser() {
		return nil
	}
	if !s.foundRefused {
		var err error
		if s.refused, err = r.Refusals.Find(ctx, f.Use.Of.Key()); err != nil {
			return err
		}
		f.Refused = s.refused.facts()
		if of := f.Of.Object; of != nil && f.Refused != nil && f.Use.Replay {
			if _, err = r.Cache.Refresh(ctx, of.GroupVersionKind(), of.GetNamespace(), of.GetName()); err != nil {
				return fmt.Errorf("read the used object: %w", err)
			}
			f.Of = r.find(ctx, s, f.Use.Of.Ref)
		}
		if f.Requested() {
			if s.mayDelete, err = r.Refusals.MayDelete(ctx, s.refused, f.Of.Object); err != nil {
				return err
			}
		}
		s.foundRefused = true
	}
	f.Refused, f.MayDelete = s.refused.facts(), s.mayDelete
	return nil
}

// isOutOfScope reports whether a kind is cluster-scoped, though the usage is in a namespace.
func (r *Reconciler) isOutOfScope(ctx context.Context, s *reconcileState, p usage.Ref) bool {
	if s.key.Namespace == "" {
		return false
	}
	_, namespace, unreadable := r.resolve(ctx, p)
	return unreadable == "" && namespace == ""
}

const compositeLabel = "crossplane.io/composite"

// isDeletedWithOwner reports whether the instance that has composed a usage is being deleted,
// too. A usage that is deleted while its instance stays protects nothing any more.
func isDeletedWithOwner(o *unstructured.Unstructured, instanceOf usage.InstanceOf, read usage.Reader) bool {
	key, version, ok := instanceOf(o)
	if !ok {
		return o.GetLabels()[compositeLabel] != ""
	}
	instance := read(key.GroupKind().WithVersion(version), key.Namespace, key.Name)
	return instance == nil || instance.GetDeletionTimestamp() != nil
}

// resolve finds a served version and the scope of a kind. A kind that is gone has no objects, but is not unreadable.
func (r *Reconciler) resolve(ctx context.Context, p usage.Ref) (kind schema.GroupVersionKind, namespace, unreadable string) {
	kind = p.Kind
	resource, err := r.Kinds.Resolve(ctx, kind)
	if kube.IsNoKindMatch(err) {
		preferred, availability, availabilityErr := r.Kinds.Availability(ctx, kind.GroupKind())
		switch {
		case availabilityErr != nil:
			return kind, p.Namespace, availabilityErr.Error()
		case availability == kube.Gone:
			return kind, p.Namespace, ""
		}
		kind = preferred
		resource, err = r.Kinds.Resolve(ctx, kind)
	}
	switch {
	case err != nil:
		return kind, p.Namespace, err.Error()
	case !resource.Namespaced:
		return kind, "", ""
	}
	return kind, p.Namespace, ""
}

// find reads an object. A composed usage is most likely about composed objects, which are
// watched anyway, so these caches are read first.
func (r *Reconciler) find(ctx context.Context, s *reconcileState, p usage.Ref) lifecycle.Lookup {
	kind, namespace, unreadable := r.resolve(ctx, p)
	if s.usage.GetLabels()[v1alpha1.ApplySetPartOfLabel] != "" {
		found, state := s.lease.Child(kind, namespace, p.Name)
		switch {
		case state.Phase == watch.Syncing:
			return lifecycle.Lookup{Unreadable: lifecycle.Syncing}
		case state.Phase == watch.Synced && found != nil:
			return lifecycle.Lookup{Object: found}
		}
	}
	found, state := s.lease.Object(kind, namespace, p.Name)
	switch {
	case unreadable != "":
		return lifecycle.Lookup{Unreadable: unreadable}
	case state.Phase == watch.Synced:
		return lifecycle.Lookup{Object: found}
	}
	return lifecycle.Lookup{Unreadable: r.unreadableReason(ctx, kind, state)}
}

// unreadableReason is why objects cannot be read; empty if the kind is gone, so there are none. A watch that found
// nothing at the path of the kind does not prove that: a gateway may have answered.
func (r *Reconciler) unreadableReason(ctx context.Context, kind schema.GroupVersionKind, state watch.State) string {
	if state.Phase != watch.Unavailable {
		return lifecycle.Syncing
	}
	if state.Reason == watch.WaitingForKind {
		if _, availability, err := r.Kinds.Availability(ctx, kind.GroupKind()); err == nil && availability == kube.Gone {
			return ""
		}
	}
	return state.Message
}

func (r *Reconciler) findSelected(ctx context.Context, s *reconcileState, p usage.Resource) lifecycle.Selected {
	kind, namespace, unreadable := r.resolve(ctx, p.Ref)
	found, state := s.lease.Matching(kind, namespace, labels.SelectorFromSet(p.Selector.Labels))
	switch {
	case unreadable != "":
		return lifecycle.Selected{Unreadable: unreadable}
	case state.Phase == watch.Synced:
		return lifecycle.Selected{Objects: found}
	}
	return lifecycle.Selected{Unreadable: r.unreadableReason(ctx, kind, state)}
}
