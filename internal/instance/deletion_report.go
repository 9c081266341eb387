package instance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/ownership"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// reportDeletion writes the progress of the deletion to the status, if that is new, and records
// events of transitions. A status that the server keeps refusing must not keep the instance: the
// deletion goes on without it.
func (r *Reconciler) reportDeletion(ctx context.Context, s *reconcileState, removal plan.Removal) reconcile.Result {
	before := s.reportedStatus()
	now := r.Now()
	said := report.Status{State: r.Dialect.State(v1alpha1.InstanceDeleting), Deletion: &removal.Deletion}
	said.Conditions = r.Dialect.DeletionConditions(before.Conditions, removal, Moment{now, s.instance.GetGeneration()})
	author, _, _ := unstructured.NestedMap(s.instance.Object, "status")
	revision := s.instance.GetResourceVersion()
	out := r.writeStatus(ctx, s, said.Render(author, r.room(s)))
	if out.Err != nil && !kube.IsTransient(out.Err) && !s.memory.statusTooNarrow {
		s.memory.statusTooNarrow = true // the author's field of this name may be of another form
		out = r.writeStatus(ctx, s, said.Render(author, r.room(s)))
	}
	r.recordStatusRefusal(s, out.Err)
	refused := out.Err != nil && !kube.IsTransient(out.Err)
	switch {
	case out.IsFinal() && !refused && now.Sub(s.instance.GetDeletionTimestamp().Time) < statusPatience:
		return out
	case out.IsFinal() && out.Err == nil:
		return out
	case out.IsFinal():
		logr.FromContextOrDiscard(ctx).Error(out.Err, "the status can't tell of the deletion, which goes on")
		return reconcile.Result{}
	}
	if s.instance.GetResourceVersion() != revision {
		s.memory.tried.Reported, s.memory.deletion = now, &removal.Deletion
		r.recordBlockers(ctx, s, before, removal)
	}
	return reconcile.Result{}
}

// statusPatience is how long a status that can't be written may hold up the deletion.
const statusPatience = time.Minute

// room is what the kind's status can hold, as far as is known.
func (r *Reconciler) room(s *reconcileState) report.Room {
	if s.memory.statusTooNarrow {
		return report.Room{}
	}
	if composer := r.composer.Load(); composer != nil {
		return (*composer).Room()
	}
	return report.AllRoom
}

// recordBlockers records events, each once, of what somebody may have to act on: blockers, and
// objects that were left behind.
func (r *Reconciler) recordBlockers(ctx context.Context, s *reconcileState, before report.Status, removal plan.Removal) {
	after := removal.Deletion
	was := report.Deletion{}
	if before.Deletion != nil {
		was = *before.Deletion
	}
	for _, b := range report.Unreported(was.Blockers, after.Blockers) {
		if !b.Deepest().InProgress { // an ordinary wait, which is in the status
			r.Events.Event(s.instance, telemetry.Warning, "DeletionBlocked", blockerText(b))
		}
	}
	r.recordLeftBehind(ctx, s, report.Unreported(was.LeftBehind, after.LeftBehind))
	if removal.Stalled && !before.Conditions.IsTrue(v1alpha1.InstanceStalled) {
		r.Events.Event(s.instance, telemetry.Warning, DeletionTimeout, plan.DeletionMessage(removal))
	}
}

// recordLeftBehind records events of what was left behind, and who asked for that.
func (r *Reconciler) recordLeftBehind(ctx context.Context, s *reconcileState, left []report.Blocker) {
	byCause := map[string][]string{}
	for _, b := range left {
		cause := plan.ReleaseReason(s.instance, b)
		byCause[cause] = append(byCause[cause], blockerText(b))
	}
	for _, cause := range slices.Sorted(maps.Keys(byCause)) {
		r.Events.Event(s.instance, telemetry.Warning, "ForceDeleted",
			fmt.Sprintf("asked for by %s; left behind: %s", r.annotatedBy(ctx, s, cause), strings.Join(byCause[cause], "; ")))
	}
}

func blockerText(b report.Blocker) string {
	return fmt.Sprintf("%s: %s: %s", b.Object, b.Reason, b.Message)
}

// mostListed bounds the objects that an event names.
const mostListed = 10

func listed(objects []*unstructured.Unstructured) string {
	texts := make([]string, 0, min(len(objects), mostListed))
	for _, o := range objects[:min(len(objects), mostListed)] {
		texts = append(texts, report.ObjectOf(o).String())
	}
	text := strings.Join(texts, ", ")
	if more := len(objects) - mostListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// annotatedBy names who set an annotation of the instance, as far as its managed fields say;
// without an annotation it was the definition.
func (r *Reconciler) annotatedBy(ctx context.Context, s *reconcileState, annotation string) string {
	if annotation == "" {
		return "the definition (spec.deletion.forceAfter)"
	}
	who := somebody
	if live, err := r.Cluster.Get(ctx, s.instance.GroupVersionKind(), s.instance.GetNamespace(), s.instance.GetName()); err == nil {
		if managers := ownership.Owners(live, ownership.Path("metadata", "annotations", annotation)); len(managers) > 0 {
			who = strings.Join(managers, " and ")
		}
	}
	return fmt.Sprintf("%s (annotation %s: %s)", who, annotation, s.instance.GetAnnotations()[annotation])
}
