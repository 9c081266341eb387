package instance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// reportDeletion writes the progress of the deletion to the status, if it is new, and records
// events of transitions. A status that the server keeps rejecting must not block the deletion:
// it continues without the report.
func (r *Reconciler) reportDeletion(ctx context.Context, s *subject, remains remnants, removal plan.Removal) reconcile.Result {
	before := s.reportedStatus()
	now := r.Now()
	status := report.Status{State: r.Dialect.State(v1alpha1.InstanceDeleting), Deletion: &removal.Deletion}
	at := Moment{now, s.instance.GetGeneration()}
	status.ObservedGeneration = at.Generation
	status.Conditions = markIgnoredOverrides(r.Dialect.DeletionConditions(before.Conditions, removal, at), remains.ignored, at)
	author, _, _ := unstructured.NestedMap(s.instance.Object, "status")
	revision := s.instance.GetResourceVersion()
	out := r.writeStatus(ctx, s, status.Render(author, r.statusFields(s)))
	if out.Err != nil && !kube.IsTransient(out.Err) && !s.memory.statusTooNarrow {
		s.memory.statusTooNarrow = true // the author's field of this name may be of another form
		out = r.writeStatus(ctx, s, status.Render(author, r.statusFields(s)))
	}
	r.recordStatusRefusal(s, out.Err)
	refused := out.Err != nil && !kube.IsTransient(out.Err)
	switch {
	case out.IsFinal() && !refused && now.Sub(s.instance.GetDeletionTimestamp().Time) < statusDelay:
		return out
	case out.IsFinal() && out.Err == nil:
		return out
	case out.IsFinal():
		logr.FromContextOrDiscard(ctx).Error(out.Err, "cannot write the status; the deletion continues")
		return reconcile.Result{}
	}
	if s.instance.GetResourceVersion() != revision {
		s.memory.deletionHistory.ReportedAt, s.memory.deletion = now, &removal.Deletion
		r.recordBlockers(ctx, s, remains.Defaults, before, removal)
		r.recordIgnoredOverrides(s, before.Conditions, status.Conditions)
	}
	return reconcile.Result{}
}

// statusDelay is how long a status that can't be written may delay the deletion.
const statusDelay = time.Minute

// A field counts only as far as the schema is known.
func (r *Reconciler) statusFields(s *subject) report.FieldSet {
	if s.memory.statusTooNarrow {
		return report.FieldSet{}
	}
	if composer := r.composer.Load(); composer != nil {
		return (*composer).StatusFields()
	}
	return report.AllFields
}

// recordBlockers records events, each once, of what may need an action of a user: blockers, and
// objects that were left behind.
func (r *Reconciler) recordBlockers(ctx context.Context, s *subject, defaults inventory.Defaults, before report.Status, removal plan.Removal) {
	current, previous := removal.Deletion, report.Deletion{}
	if before.Deletion != nil {
		previous = *before.Deletion
	}
	for _, b := range report.NewBlockers(previous.Blockers, current.Blockers) {
		if !b.RootCause().InProgress { // an ordinary wait, which is in the status
			r.Events.Event(s.instance, telemetry.Warning, "DeletionBlocked", blockerText(b))
		}
	}
	r.recordLeftBehind(ctx, s, defaults, report.NewBlockers(previous.LeftBehind, current.LeftBehind))
	if stalled, _ := before.Conditions.Get(v1alpha1.InstanceStalled); removal.Stalled && stalled.Reason != DeletionTimeout {
		r.Events.Event(s.instance, telemetry.Warning, DeletionTimeout, plan.DeletionMessage(removal))
	}
}

// recordLeftBehind records events of objects that were left behind, and of the setting that
// requested it.
func (r *Reconciler) recordLeftBehind(ctx context.Context, s *subject, defaults inventory.Defaults, left []report.Blocker) {
	byCause := map[string][]string{}
	for _, b := range left {
		cause := plan.ReleaseReason(s.instance, defaults.Overrides, b)
		byCause[cause] = append(byCause[cause], blockerText(b))
	}
	for _, cause := range slices.Sorted(maps.Keys(byCause)) {
		r.Events.Event(s.instance, telemetry.Warning, "ForceDeleted",
			fmt.Sprintf("requested by %s; left behind: %s", r.annotatedBy(ctx, s, cause), strings.Join(byCause[cause], "; ")))
	}
}

func blockerText(b report.Blocker) string {
	return fmt.Sprintf("%s: %s: %s", b.Object, b.Reason, b.Message)
}

// maxListed bounds the objects that an event names.
const maxListed = 10

func listed(objects []*unstructured.Unstructured) string {
	texts := make([]string, 0, min(len(objects), maxListed))
	for _, o := range objects[:min(len(objects), maxListed)] {
		texts = append(texts, report.ObjectOf(o).String())
	}
	text := strings.Join(texts, ", ")
	if more := len(objects) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// annotatedBy names the manager that set an annotation of the instance, as far as its managed
// fields show it; without an annotation it was the definition.
func (r *Reconciler) annotatedBy(ctx context.Context, s *subject, annotation string) string {
	if annotation == "" {
		return "the definition (spec.deletion.forceAfter)"
	}
	manager := unknownManager
	if live, err := r.self().Get(ctx, s.instance.GroupVersionKind(), s.instance.GetNamespace(), s.instance.GetName()); err == nil {
		if managers := ownership.Owners(live, ownership.Path("metadata", "annotations", annotation)); len(managers) > 0 {
			manager = strings.Join(managers, " and ")
		}
	}
	return fmt.Sprintf("%s (annotation %s: %s)", manager, annotation, s.instance.GetAnnotations()[annotation])
}
