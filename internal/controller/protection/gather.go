package protection

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/usage"
	"github.com/espalier-dev/espalier/internal/watch"
)

// gather reads what counts for a usage, from caches. All that is read wakes it.
func (r *Reconciler) gather(ctx context.Context, v *visit) usage.Facts {
	f := usage.Facts{Usage: v.usage, Replayed: v.replayed}
	f.Use, _ = usage.Read(v.usage)
	if of := f.Use.Of; of.Name != "" {
		f.Of = r.look(ctx, v, of.Ref)
	} else if of.Selector != nil && !f.Use.Deleting {
		f.OfSelected = r.selected(ctx, v, of)
	}
	if by := f.Use.By; by != nil && by.Name != "" {
		f.By = r.look(ctx, v, by.Ref)
	} else if by != nil && by.Selector != nil && !f.Use.Deleting {
		f.BySelected = r.selected(ctx, v, *by)
	}
	read := func(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
		o, _ := v.lease.Object(kind, namespace, name)
		return o
	}
	f.Use.Kin = usage.KinOf(f.Of.Object, f.By.Object, read)
	if f.Of.Object != nil && f.By.Object != nil {
		r.Book.Note(f.Use, f.Use.Kin)
	}
	if f.Use.Deleting {
		f.Together = together(v.usage, read)
		f.Circular = f.Together && r.Book.Circular(f.Use)
		if f.Of.Object != nil && !f.Waits() {
			f.Last = r.Book.Leave(f.Use, object.KeyOf(f.Of.Object))
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

// where finds out how a kind is served. Of a kind that is gone there are no objects.
func (r *Reconciler) where(ctx context.Context, p usage.Ref) (kind schema.GroupVersionKind, namespace, unknown string) {
	kind = p.Kind
	resource, err := r.Kinds.Resolve(ctx, kind)
	if cluster.IsUnavailable(err) {
		preferred, standing, lookErr := r.Kinds.Standing(ctx, kind.GroupKind())
		switch {
		case lookErr != nil:
			return kind, p.Namespace, lookErr.Error()
		case standing == cluster.Gone:
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

// look reads an object. A part of an instance is likely to be about parts of instances,
// which are watched anyway.
func (r *Reconciler) look(ctx context.Context, v *visit, p usage.Ref) usage.Look {
	kind, namespace, unknown := r.where(ctx, p)
	if v.usage.GetLabels()[v1alpha1.ApplySetPartOfLabel] != "" {
		found, state := v.lease.Child(kind, namespace, p.Name)
		switch {
		case state.Phase == watch.Syncing:
			return usage.Look{Unknown: usage.Reading}
		case state.Phase == watch.Synced && found != nil:
			return usage.Look{Object: found}
		}
	}
	found, state := v.lease.Object(kind, namespace, p.Name)
	switch {
	case unknown != "":
		return usage.Look{Unknown: unknown}
	case state.Phase == watch.Synced:
		return usage.Look{Object: found}
	}
	return usage.Look{Unknown: r.unreadable(kind, state)}
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
	return usage.Reading
}

// selected reads what a selector may mean.
func (r *Reconciler) selected(ctx context.Context, v *visit, p usage.Party) usage.Looked {
	kind, namespace, unknown := r.where(ctx, p.Ref)
	found, state := v.lease.Matching(kind, namespace, labels.SelectorFromSet(p.Selector.Labels))
	switch {
	case unknown != "":
		return usage.Looked{Unknown: unknown}
	case state.Phase == watch.Synced:
		return usage.Looked{Objects: found}
	}
	return usage.Looked{Unknown: r.unreadable(kind, state)}
}
