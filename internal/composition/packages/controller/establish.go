package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1alpha1"
	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/composition/packages/establish"
	"github.com/espalier-dev/espalier/internal/composition/packages/runtime"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
)

var crdKind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")

// establish writes the objects of a revision: none, if one is refused.
func (r *Revisions) establish(ctx context.Context, s *revisionState) error {
	if err := r.describe(ctx, s); err != nil {
		return err
	}
	f := establish.Facts{
		Revision: r.owner(RevisionKind(r.Package), s.raw.Unstructured), Package: r.owner(r.Package, s.pkg),
		Labels: s.revision.Spec.CommonLabels, Annotations: s.revision.Spec.CommonAnnotations,
		Replaceable: func(owner metav1.OwnerReference) bool { return r.isReplaceable(ctx, s, owner) },
	}
	objects, err := r.objects(ctx, s)
	if err != nil {
		return err
	}
	live := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		found, known, err := r.live(s.lease, o.GroupVersionKind(), o.GetName())
		if err != nil {
			return err
		} else if !known {
			return errNotRead
		}
		live[o.GetKind()+"/"+o.GetName()] = found
		f.Objects = append(f.Objects, r.withState(s, o, found))
	}
	f.Live = func(o *unstructured.Unstructured) *unstructured.Unstructured {
		return live[o.GetKind()+"/"+o.GetName()]
	}
	plan := establish.Compute(f)
	if len(plan.Refusals) > 0 {
		return &problem{reason: "SyncPackage", text: "cannot establish control of its objects: " + strings.Join(plan.Refusals, "; ")}
	}
	if err := r.write(ctx, r.DryRun, plan); err != nil {
		return err
	}
	if err := r.write(ctx, r.Cluster, plan); err != nil {
		return err
	}
	s.recordObjects(f)
	return nil
}

// objects are the objects that the revision installs, as they have to be in this cluster, without owners.
func (r *Revisions) objects(ctx context.Context, s *revisionState) (out []*unstructured.Unstructured, err error) {
	configurations := map[string]string{}
	for _, o := range s.content.Package.Objects {
		if !s.content.Package.Installs(o.GroupVersionKind()) {
			continue
		}
		if o, err = r.asManagedDefinition(s, o); err != nil {
			return nil, err
		}
		if establish.HasWebhooks(o) {
			if other, exists := configurations[o.GetKind()]; establish.IsConfiguration(o) && exists {
				return nil, &problem{reason: "SyncPackage", text: fmt.Sprintf("it contains %s %s and %s, which would have one name: put all webhooks into one of them",
					o.GetKind(), other, o.GetName())}
			}
			configurations[o.GetKind()] = o.GetName()
			webhooks, err := r.webhooks(ctx, s)
			if err != nil {
				return nil, err
			}
			if o, err = webhooks.Complete(o); err != nil {
				return nil, &problem{reason: "SyncPackage", text: "cannot install webhooks: " + err.Error()}
			}
		}
		out = append(out, o)
	}
	return out, nil
}

// webhooks are reached by the Service of the package, with a certificate of the authority in force.
func (r *Revisions) webhooks(ctx context.Context, s *revisionState) (w establish.Webhooks, err error) {
	p, err := r.program(s)
	if err != nil {
		return w, err
	}
	_, authorities, _, err := r.Certificates.authority(ctx, s.lease)
	return establish.Webhooks{Package: p.Package, Service: p.ServiceName(), Namespace: r.Namespace, Port: runtime.Port, Authorities: authorities}, err
}

// asManagedDefinition returns a ManagedResourceDefinition in place of a CustomResourceDefinition if the provider starts without
// its kinds, or if there is one already: Crossplane makes them for all providers. It returns other objects as they are.
func (r *Revisions) asManagedDefinition(s *revisionState, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	definition := establish.ManagedDefinitionOf(o)
	if r.Package.Kind != v1.ProviderKind || definition == nil {
		return o, nil
	}
	live, known, err := r.live(s.lease, ManagedKind, o.GetName())
	switch {
	case err != nil:
		return nil, err
	case !known:
		return nil, errNotRead
	case live != nil || startsSafely(s.status):
		return definition, nil
	}
	return o, nil
}

// withState activates the definitions of managed resources of a provider that does not start without its kinds, and those of kinds
// that exist already. Of any other, a policy does that, so what it has written stays.
func (r *Revisions) withState(s *revisionState, o, live *unstructured.Unstructured) *unstructured.Unstructured {
	if o.GroupVersionKind() != ManagedKind {
		return o
	}
	o = o.DeepCopy()
	_, exists := r.CRDs.Named(o.GetName())
	if !startsSafely(s.status) || exists || live != nil && isActive(live) {
		_ = unstructured.SetNestedField(o.Object, string(apiextensions.ManagedResourceActive), "spec", "state")
	} else if !isActive(o) {
		unstructured.RemoveNestedField(o.Object, "spec", "state")
	}
	return o
}

func (r *Revisions) owner(kind schema.GroupVersionKind, o *unstructured.Unstructured) establish.Owner {
	return establish.Owner{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: o.GetName(), UID: o.GetUID()}
}

// write names all objects that cannot be written.
func (c Config) write(ctx context.Context, to Cluster, plan establish.Plan) error {
	var refused []string
	for _, step := range plan.Steps {
		var err error
		if step.Action == establish.Create {
			_, err = to.Create(ctx, step.Object, objectManager)
		} else {
			_, err = to.Update(ctx, step.Object, step.UID, objectManager)
		}
		switch {
		case err == nil:
		case kube.IsStale(err), kube.IsNameTaken(err):
			return &problem{text: step.Object.GetKind() + " " + step.Object.GetName() + " has changed meanwhile", waits: true}
		case kube.IsTransient(err):
			return err
		default:
			refused = append(refused, fmt.Sprintf("%s %s: %s%s", step.Object.GetKind(), step.Object.GetName(), kube.RedactedMessage(err), kube.Remedy(err)))
		}
	}
	if len(refused) > 0 {
		slices.Sort(refused)
		return errors.New("cannot write its objects: " + strings.Join(refused, "; "))
	}
	return nil
}

// live reads an object. CustomResourceDefinitions are known already; other objects are watched.
func (c Config) live(lease *watch.Lease, kind schema.GroupVersionKind, name string) (o *unstructured.Unstructured, known bool, err error) {
	if kind.GroupKind() == crdKind.GroupKind() {
		found, exists := c.CRDs.Named(name)
		if !exists {
			return nil, true, nil
		}
		o = &unstructured.Unstructured{Object: map[string]any{}}
		o.SetGroupVersionKind(crdKind)
		o.SetName(found.Name)
		o.SetUID(found.UID)
		o.SetAnnotations(found.Annotations)
		o.SetOwnerReferences(found.OwnerReferences)
		o.SetDeletionTimestamp(found.DeletionTimestamp)
		return o, true, nil
	}
	o, state := lease.Object(kind, "", name)
	switch {
	case state.Phase == watch.Synced:
		return o, true, nil
	case state.Phase == watch.Unavailable:
		return nil, false, &problem{reason: "SyncPackage", text: fmt.Sprintf("cannot install %s %s: %s", kind.Kind, name, state.Message), waits: state.Reason != watch.Forbidden}
	}
	return nil, false, nil
}

// isReplaceable reports whether a controller is a revision of the same source, or is gone.
func (r *Revisions) isReplaceable(ctx context.Context, s *revisionState, owner metav1.OwnerReference) bool {
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	if kind.Group != v1.GroupVersion.Group {
		return false
	}
	o, err := r.Cluster.Get(ctx, kind, "", owner.Name)
	if kube.IsObjectNotFound(err, owner.Name) {
		return true
	}
	if err != nil {
		return false
	}
	theirs, err := parseReference(stringAt(o.Object, "spec", "image"))
	ours, ourErr := parseReference(s.revision.Spec.Image)
	return o.GetUID() != owner.UID || err == nil && ourErr == nil && theirs.Source == ours.Source
}

// recordObjects names the objects in the status.
func (s *revisionState) recordObjects(f establish.Facts) {
	var all []any
	for _, o := range f.Objects {
		all = append(all, map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "name": o.GetName()})
	}
	set(s.status, "objectRefs", all)
}

// areInstalled reports whether all objects of a revision exist and are controlled by it, and name webhooks with the authorities in
// force.
func (r *Revisions) areInstalled(ctx context.Context, s *revisionState) bool {
	for _, ref := range s.revision.Status.ObjectRefs {
		o, known, err := r.live(s.lease, schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), ref.Name)
		if err != nil || !known {
			return true // nothing follows from what is not read
		}
		if o == nil {
			return false
		}
		if owner := metav1.GetControllerOfNoCopy(o); owner == nil || owner.UID != s.raw.GetUID() {
			return false
		}
		if trusted := o.GetAnnotations()[establish.AuthoritiesAnnotation]; trusted != "" {
			if w, err := r.webhooks(ctx, s); err == nil && w.Digest() != trusted {
				return false
			}
		}
	}
	return true
}

// release makes a revision control nothing any more, so that another one can.
func (r *Revisions) release(ctx context.Context, s *revisionState) error {
	for _, ref := range s.revision.Status.ObjectRefs {
		o, known, err := r.live(s.lease, schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), ref.Name)
		if err != nil || !known || o == nil {
			continue // what cannot be read now is taken over by the next revision
		}
		owners, ok := establish.Released(o, s.raw.GetUID())
		if !ok {
			continue
		}
		o = o.DeepCopy()
		var list []any
		for _, owner := range owners {
			list = append(list, asMap(owner))
		}
		if o.GetResourceVersion() == "" {
			if o, err = r.Cluster.Get(ctx, o.GroupVersionKind(), "", o.GetName()); err != nil {
				return err
			}
		}
		if _, err := r.Cluster.Patch(ctx, o, map[string]any{"metadata": map[string]any{"ownerReferences": list}}, objectManager); err != nil && !kube.IsStale(err) {
			return err
		}
	}
	return nil
}
