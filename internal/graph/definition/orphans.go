package definition

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Orphans reconciles revisions without a definition. They stay for a later definition of the same name, and their
// status reports whether they compile. When such a revision is deleted, Orphans removes its finalizer.
type Orphans struct {
	Cluster *kube.Client
	Kinds   *kube.Kinds
	Hub     *watch.Hub
	Now     func() time.Time
}

// Reconcile handles a revision without a definition.
func (r *Orphans) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	subscriber := watch.Subscriber{Key: key}
	o, ok := r.Hub.GetCached(RevisionKind, key.Namespace, key.Name)
	if !ok || !r.isOpen(o) {
		r.Hub.Forget(subscriber)
		return reconcile.Done()
	}
	kind := v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGraphDefinitionKind)
	name, _, _ := unstructured.NestedString(o.Object, "spec", "snapshot", "name")
	namespace, _, _ := unstructured.NestedString(o.Object, "spec", "snapshot", "namespace")
	if namespace != "" {
		kind.Kind = v1alpha1.ResourceGroupKind
	}
	lease := r.Hub.Begin(subscriber)
	defer lease.Commit()
	definition, state := lease.Object(kind, namespace, name)
	if state.Phase != watch.Synced || definition != nil {
		return reconcile.Done() // its definition handles it; the lease enqueues this when the definition is gone
	}
	do := r.verify
	if o.GetDeletionTimestamp() != nil {
		do = r.release
	}
	if err := do(ctx, o); err != nil {
		return reconcile.Fail(err)
	}
	return reconcile.Done()
}

// isOpen reports whether a revision without a definition needs an action.
func (r *Orphans) isOpen(o *unstructured.Unstructured) bool {
	if o.GetDeletionTimestamp() != nil {
		return slices.Contains(o.GetFinalizers(), v1alpha1.Finalizer)
	}
	return !isVerified(o)
}

func (r *Orphans) release(ctx context.Context, o *unstructured.Unstructured) error {
	return removeFinalizer(ctx, r.Cluster, o)
}

func (r *Orphans) verify(ctx context.Context, o *unstructured.Unstructured) error {
	var one rev.GraphRevision
	var c compiled
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &one); err != nil {
		c.problems.Addf("spec", "cannot be decoded: %v", err)
	} else {
		spec := &one.Spec.Snapshot.Spec
		kinds, err := LookUpKinds(ctx, r.Kinds, graph.UsedKinds(spec))
		if err != nil {
			return err
		}
		c.graph, c.problems = graph.Compile(spec, kinds, acceptSecretOutputs)
	}
	fields, err := verifiedStatus(o, c, r.Now())
	if err != nil || fields == nil {
		return err
	}
	_, err = r.Cluster.WriteStatus(ctx, o, fields, v1alpha1.StatusManager)
	if kube.IsStale(err) {
		return nil
	}
	return err
}
