package instance

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// takeOver makes the objects of a Graph that kro has reconciled children of it. kro knows them by its record in the status
// alone. Here each gets the labels and the signature of a child, and after them the Graph gets its inventory, which shows
// that it is taken over: an interrupted takeover begins again.
func (r *Reconciler) takeOver(ctx context.Context, s *subject) reconcile.Result {
	if !r.Definition.IsGraph() || inventory.SetOf(s.instance) == s.owner.ID() {
		return reconcile.Result{}
	}
	recorded := report.ReadManaged(s.instance)
	if len(recorded) == 0 {
		return reconcile.Result{}
	}
	if err := r.labelRecorded(ctx, s, recorded); err != nil {
		return r.reportTakeover(ctx, s, err)
	}
	metadata := inventory.MetadataOf(s.owner, s.owner.Recorded(s.instance).Union(inventoryOf(recorded, s.key.Namespace)), r.defaultsOf(s.instance))
	switch err := r.writeMetadata(ctx, s, metadata); {
	case kube.IsStale(err):
		return reconcile.Conflict()
	case err != nil:
		return r.reportTakeover(ctx, s, fmt.Errorf("write the inventory: %w", err))
	}
	logr.FromContextOrDiscard(ctx).Info("took over a Graph of kro", "objects", len(recorded))
	return reconcile.Result{}
}

func inventoryOf(recorded []v1alpha1.ManagedResource, home string) inventory.Inventory {
	out := inventory.Of(nil)
	for _, m := range recorded {
		out.Kinds[schema.FromAPIVersionAndKind(m.APIVersion, m.Kind).GroupKind()] = struct{}{}
		if m.Namespace != "" && m.Namespace != home {
			out.Namespaces[m.Namespace] = struct{}{}
		}
	}
	return out
}

func (r *Reconciler) labelRecorded(ctx context.Context, s *subject, recorded []v1alpha1.ManagedResource) error {
	answers := make([]error, len(recorded))
	work := make([]func() error, len(recorded))
	for i, m := range recorded {
		work[i] = func() error { answers[i] = r.labelOne(ctx, s, m); return nil }
	}
	failed := inParallel(work)
	for i, err := range answers {
		if apierrors.IsForbidden(err) && recorded[i].Namespace == s.key.Namespace && r.isDeletedWithNamespace(ctx, s) {
			continue // the object goes with the namespace, as the permissions went
		}
		if m := recorded[i]; err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", object.Key{Kind: m.Kind, Namespace: m.Namespace, Name: m.Name}, err))
		}
	}
	return errors.Join(failed...)
}

// labelOne leaves an object alone that is not, or no longer, what kro has recorded and applied for the Graph.
func (r *Reconciler) labelOne(ctx context.Context, s *subject, m v1alpha1.ManagedResource) error {
	gvk, availability, err := r.Kinds.Availability(ctx, schema.FromAPIVersionAndKind(m.APIVersion, m.Kind).GroupKind())
	if err != nil || availability == kube.Gone {
		return err
	}
	live, err := r.Cluster.Get(ctx, gvk, m.Namespace, m.Name)
	switch {
	case kube.IsObjectNotFound(err, m.Name):
		return nil
	case err != nil:
		return err
	case m.UID != "" && types.UID(m.UID) != live.GetUID(), !s.owner.IsAppliedByKRO(live):
		return nil
	case s.owner.OwnsAs(live, m.NodeID) && s.owner.LabelPatch(live, m.NodeID) == nil:
		return nil // an interrupted takeover has labelled it
	}
	_, err = r.write(s, live, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Update(ctx, s.owner.Labels(live, m.NodeID), live.GetUID(), v1alpha1.ChildManager)
	})
	if kube.IsStale(err) {
		return nil // it is gone
	}
	return err
}

// reportTakeover reports why the objects of a Graph are not taken over. The rest of the status stays: it has kro's record.
func (r *Reconciler) reportTakeover(ctx context.Context, s *subject, err error) reconcile.Result {
	s.fail(fmt.Errorf("take over the objects of kro: %w", err))
	if out := r.chooseComposer(ctx, s); out.IsFinal() {
		return reconcile.Fail(err)
	}
	problem := problemOf(err)
	problem.Message = "nothing is changed until the objects that kro has recorded are taken over: " + problem.Message
	var now round
	now.facts.Now, now.facts.Defaults = r.Now(), s.composer.Defaults()
	now.desired = plan.Desired{Problem: problem}
	now.desired.Status, _, _ = unstructured.NestedMap(s.instance.Object, "status")
	return r.report(ctx, s, findings{round: now, inventoryProblem: problem})
}
