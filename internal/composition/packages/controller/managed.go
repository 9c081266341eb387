package controller

import (
	"context"
	"errors"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1alpha1"
	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/packages/establish"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Managed installs the CustomResourceDefinitions of active definitions of managed resources.
type Managed struct {
	Config
}

// Reconcile installs one. It is never deleted here: the garbage collector deletes it after its definition.
func (r *Managed) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	raw, ok := r.Hub.GetCached(ManagedKind, "", key.Name)
	if !ok {
		r.Hub.Forget(watch.Subscriber{Key: key})
		return reconcile.Done()
	}
	o := &writer.Object{Unstructured: raw}
	if out, waits := r.suspended(ctx, o); waits {
		return out
	}
	established := v1alpha1.Condition{Type: apiextensions.TypeEstablished, Status: condition.False}
	var err error
	switch {
	case raw.GetDeletionTimestamp() != nil:
		established.Reason = apiextensions.ReasonTerminating
	case !isActive(raw):
		established.Reason = apiextensions.ReasonInactive
		established.Message = "a ManagedResourceActivationPolicy activates it, or the first definition that composes the kind"
	default:
		err = r.install(ctx, raw)
		established = r.established(raw.GetName(), err)
	}
	_, out := r.writeConditions(ctx, o, maps.Clone(statusOf(raw.Object)), established.Status == condition.Unknown, established)
	if out.IsFinal() || asProblem(err) != nil {
		return out.OrDone()
	}
	return resultOf(err)
}

func (r *Managed) established(name string, err error) v1alpha1.Condition {
	c := v1alpha1.Condition{Type: apiextensions.TypeEstablished, Status: condition.Unknown, Reason: apiextensions.ReasonPending,
		Message: "waiting for the API server to serve the kind"}
	found, exists := r.CRDs.Named(name)
	switch {
	case err != nil:
		c.Status, c.Message = condition.False, err.Error()
	case exists && crd.IsEstablished(found):
		c.Status, c.Reason, c.Message = condition.True, apiextensions.ReasonEstablished, ""
	case exists && crd.NotEstablishedMessage(found) != "":
		c.Message = crd.NotEstablishedMessage(found)
	}
	return c
}

// install writes the CustomResourceDefinition, if it differs.
func (r *Managed) install(ctx context.Context, o *unstructured.Unstructured) error {
	f := establish.Facts{
		Revision: establish.Owner{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID()},
		Objects:  []*unstructured.Unstructured{definitionOf(o)},
		Live: func(o *unstructured.Unstructured) *unstructured.Unstructured {
			live, _, _ := r.live(nil, crdKind, o.GetName())
			return live
		},
	}
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		f.Package = establish.Owner{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID}
	}
	f.Replaceable = func(owner metav1.OwnerReference) bool { return r.isReplaceable(ctx, owner, f.Package) }
	plan := establish.Compute(f)
	if len(plan.Refusals) > 0 {
		return &problem{text: "cannot install its CustomResourceDefinition: " + strings.Join(plan.Refusals, "; ")}
	}
	return r.write(ctx, r.Cluster, plan)
}

// isReplaceable reports whether an owner is an older revision of the package of a definition: it had the CustomResourceDefinition
// itself. A newer one may have it again, after a rollback.
func (r *Managed) isReplaceable(ctx context.Context, owner metav1.OwnerReference, revision establish.Owner) bool {
	kind := RevisionKind(v1.GroupVersion.WithKind(v1.ProviderKind))
	if owner.UID == revision.UID || schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind) != kind {
		return owner.UID == revision.UID
	}
	older, err := r.Cluster.Get(ctx, kind, "", owner.Name)
	if kube.IsObjectNotFound(err, owner.Name) {
		return true
	}
	current, currentErr := r.Cluster.Get(ctx, kind, "", revision.Name)
	if err != nil || currentErr != nil || older.GetLabels()[v1.PackageLabel] != current.GetLabels()[v1.PackageLabel] {
		return false
	}
	before, _, _ := unstructured.NestedInt64(older.Object, "spec", "revision")
	now, _, _ := unstructured.NestedInt64(current.Object, "spec", "revision")
	return before < now
}

// definitionOf is the CustomResourceDefinition of a definition, with its labels and annotations.
func definitionOf(o *unstructured.Unstructured) *unstructured.Unstructured {
	spec, _ := o.Object["spec"].(map[string]any)
	spec = maps.Clone(spec)
	delete(spec, "connectionDetails")
	delete(spec, "state")
	out := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	out.SetGroupVersionKind(crdKind)
	out.SetName(o.GetName())
	out.SetLabels(o.GetLabels())
	annotations := map[string]string{}
	for key, value := range o.GetAnnotations() {
		if key != v1alpha1.AppliedAnnotation && !strings.HasPrefix(key, "kubectl.kubernetes.io/") {
			annotations[key] = value
		}
	}
	out.SetAnnotations(annotations)
	return out
}

// awaitsActivation reports whether a provider starts without its kinds, and none of them is active: then it has nothing to do.
func (r *Revisions) awaitsActivation(s *revisionState) (bool, error) {
	if !startsSafely(s.status) {
		return false, nil
	}
	refs, _ := s.status["objectRefs"].([]any)
	definitions := 0
	for _, ref := range refs {
		ref, _ := ref.(map[string]any)
		if stringAt(ref, "kind") != ManagedKind.Kind {
			continue
		}
		definitions++
		o, err := readObject(s.lease, ManagedKind, "", stringAt(ref, "name"))
		switch {
		case errors.Is(err, errNotRead):
			return false, err
		case err == nil && o != nil && isActive(o):
			return false, nil
		}
	}
	return definitions > 0, nil
}

// activity is the condition RuntimeActive of a provider that waits for its kinds.
func activity(idle bool) v1alpha1.Condition {
	if idle {
		return v1alpha1.Condition{Type: v1.TypeRuntimeActive, Status: condition.False, Reason: v1.ReasonAwaitingActivation,
			Message: "none of its ManagedResourceDefinitions is active, so its program does not run"}
	}
	return v1alpha1.Condition{Type: v1.TypeRuntimeActive, Status: condition.True, Reason: v1.ReasonActiveRuntime}
}
