package protection

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/protection/lifecycle"
)

// gather reads what counts for a usage, from caches. A change of what is read enqueues it.
func (r *Reconciler) gather(ctx context.Context, s *reconcileState) lifecycle.Facts {
	f := lifecycle.Facts{Usage: s.usage, Replayed: s.replayed}
	f.Use, _ = usage.Read(s.usage)
	if of := f.Use.Of; of.Name != "" {
		f.Of = r.find(ctx, s, of.Ref)
	} else if of.Selector != nil && !f.Use.Deleting {
		f.OfSelected = r.findSelected(ctx, s, of)
	}
	if by := f.Use.By; by != nil && by.Name != "" {
		f.By = r.find(ctx, s, by.Ref)
	} else if by != nil && by.Selector != nil && !f.Use.Deleting {
		f.BySelected = r.findSelected(ctx, s, *by)
	}
	read := func(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
		o, _ := s.lease.Object(kind, namespace, name)
		return o
	}
	f.Use.Kin = usage.KinOf(f.Of.Object, f.By.Object, read)
	if f.Of.Object != nil && f.By.Object != nil {
		r.Index.SetKin(f.Use, f.Use.Kin)
	}
	if f.Use.Deleting {
		f.Together = together(s.usage, read)
		f.Circular = f.Together && r.Index.Circular(f.Use)
		if f.Of.Object != nil && !f.Waits() {
			f.Last = r.Index.SetLeaving(f.Use, object.KeyOf(f.Of.Object))
		}
	}
	return f
}

// compositeLabel is on what another controller of the dialect has composed.
const compositeLabel = "crossplane.io/composite"

// together says whether a usage goes with what it is a part of. One that is deleted
// while that stays isn't wanted any more, and keeps nothing.
func together(o *unstructured.Unstructured, read usage.Reader) bool {
	key, version, ok := inventory.InstanceOf(o)
	if !ok {
		return o.GetLabels()[compositeLabel] != ""
	}
	instance := read(key.GroupKind().WithVersion(version), key.Namespace, key.Name)
	return instance == nil || instance.GetDeletionTimestamp() != nil
}

// resolve finds out how a kind is served. Of a kind that is gone there are no objects.
func (r *Reconciler) resolve(ctx context.Context, p usage.Ref) (kind schema.GroupVersionKind, namespace, unknown string) {
	kind = p.Kind
	resource, err := r.Kinds.Resolve(ctx, kind)
	if kube.IsUnavailable(err) {
		preferred, standing, standingErr := r.Kinds.Availability(ctx, kind.GroupKind())
		switch {
		case standingErr != nil:
			return kind, p.Namespace, standingErr.Error()
		case standing == kube.Gone:
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

// find reads an object. A part of an instance is likely to be about parts of instances,
// which are watched anyway.
func (r *Reconciler) find(ctx context.Context, s *reconcileState, p usage.Ref) lifecycle.Lookup {
	kind, namespace, unknown := r.resolve(ctx, p)
	if s.usage.GetLabels()[v1alpha1.ApplySetPartOfLabel] != "" {
		found, state := s.lease.Child(kind, namespace, p.Name)
		switch {
		case state.Phase == watch.Syncing:
			return lifecycle.Lookup{Unknown: lifecycle.Reading}
		case state.Phase == watch.Synced && found != nil:
			return lifecycle.Lookup{Object: found}
		}
	}
	found, state := s.lease.Object(kind, namespace, p.Name)
	switch {
	case unknown != "":
		return lifecycle.Lookup{Unknown: unknown}
	case state.Phase == watch.Synced:
		return lifecycle.Lookup{Object: found}
	}
	return lifecycle.Lookup{Unknown: r.unreadable(kind, state)}
}

// unreadable says why nothing follows from what isn't read; empty where it follows that
// there is nothing.
func (r *Reconciler) unreadable(kind schema.GroupVersionKind, state watch.State) string {
	_, exists := r.Kinds.CRD(kind.GroupKind())
	switch {
	case state.Phase == watch.Unavailable && state.Reason == watch.WaitingForKind && !exists:
		return ""
	case state.Phase == watch.Unavailable:
		return state.Message
	}
	return lifecycle.Reading
}

// findSelected reads what a selector may mean.
func (r *Reconciler) findSelected(ctx context.Context, s *reconcileState, p usage.Party) lifecycle.Selected {
	kind, namespace, unknown := r.resolve(ctx, p.Ref)
	found, state := s.lease.Matching(kind, namespace, labels.SelectorFromSet(p.Selector.Labels))
	switch {
	case unknown != "":
		return lifecycle.Selected{Unknown: unknown}
	case state.Phase == watch.Synced:
		return lifecycle.Selected{Objects: found}
	}
	return lifecycle.Selected{Unknown: r.unreadable(kind, state)}
}
