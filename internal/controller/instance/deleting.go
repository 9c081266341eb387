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
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// tellDeletion writes how far the deletion has come, if that is news, and tells
// of transitions as events. A status that the server refuses for good must not
// keep the instance: then the deletion goes on untold.
func (r *Reconciler) tellDeletion(ctx context.Context, v *visit, removal plan.Removal) outcome.Outcome {
	before := v.told()
	now := r.Now()
	said := report.Status{State: r.Dialect.State(v1alpha1.InstanceDeleting), Deletion: &removal.Deletion}
	said.Conditions = r.Dialect.Leave(before.Conditions, removal, Moment{now, v.instance.GetGeneration()})
	author, _, _ := unstructured.NestedMap(v.instance.Object, "status")
	revision := v.instance.GetResourceVersion()
	out := r.writeStatus(ctx, v, said.Render(author, r.room(v)))
	if out.Err != nil && !cluster.Passes(out.Err) && !v.memory.narrow {
		v.memory.narrow = true // the author's field of this name may be of another form
		out = r.writeStatus(ctx, v, said.Render(author, r.room(v)))
	}
	r.untold(v, out.Err)
	refused := out.Err != nil && !cluster.Passes(out.Err)
	switch {
	case out.Settled() && !refused && now.Sub(v.instance.GetDeletionTimestamp().Time) < untoldAfter:
		return out
	case out.Settled() && out.Err == nil:
		return out
	case out.Settled():
		logr.FromContextOrDiscard(ctx).Error(out.Err, "the status can't tell of the deletion, which goes on")
		return outcome.Outcome{}
	}
	if v.instance.GetResourceVersion() != revision {
		v.memory.tried.Told, v.memory.deletion = now, &removal.Deletion
		r.announceDeletion(ctx, v, before, removal)
	}
	return outcome.Outcome{}
}

// untoldAfter is how long a status that can't be written may hold up what it tells
// of.
const untoldAfter = time.Minute

// room is what the kind's status has room for, as far as is known.
func (r *Reconciler) room(v *visit) report.Room {
	if v.memory.narrow {
		return report.Room{}
	}
	if composer := r.composer.Load(); composer != nil {
		return (*composer).Room()
	}
	return report.AllRoom
}

// announceDeletion tells, each once, what somebody may have to act on: what has
// come in the way, and what was given up.
func (r *Reconciler) announceDeletion(ctx context.Context, v *visit, before report.Status, removal plan.Removal) {
	after := removal.Deletion
	was := report.Deletion{}
	if before.Deletion != nil {
		was = *before.Deletion
	}
	for _, b := range fresh(was.Blockers, after.Blockers) {
		if !b.Deepest().InProgress { // an ordinary wait, which the status tells
			r.Events.Event(v.instance, telemetry.Warning, "DeletionBlocked", blockerText(b))
		}
	}
	r.announceLeft(ctx, v, fresh(was.LeftBehind, after.LeftBehind))
	if removal.Stalled && !before.Conditions.IsTrue(v1alpha1.InstanceStalled) {
		r.Events.Event(v.instance, telemetry.Warning, DeletionTimeout, plan.DeletionMessage(removal))
	}
}

// announceLeft tells what was left behind, and who asked for that.
func (r *Reconciler) announceLeft(ctx context.Context, v *visit, left []report.Blocker) {
	byCause := map[string][]string{}
	for _, b := range left {
		cause := plan.Because(v.instance, b)
		byCause[cause] = append(byCause[cause], blockerText(b))
	}
	for _, cause := range slices.Sorted(maps.Keys(byCause)) {
		r.Events.Event(v.instance, telemetry.Warning, "ForceDeleted",
			fmt.Sprintf("asked for by %s; left behind: %s", r.whoSet(ctx, v, cause), strings.Join(byCause[cause], "; ")))
	}
}

// fresh are the blockers that weren't told of before, have another cause, or aren't in progress
// any more.
func fresh(before, after []report.Blocker) []report.Blocker {
	var out []report.Blocker
	for _, b := range after {
		known := func(old report.Blocker) bool {
			was, is := old.Deepest(), b.Deepest()
			return old.Object == b.Object && old.Reason == b.Reason && was.Object == is.Object && was.Reason == is.Reason && (is.InProgress || !was.InProgress)
		}
		if !slices.ContainsFunc(before, known) {
			out = append(out, b)
		}
	}
	return out
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

// whoSet names who set an annotation of the instance, as far as its managed fields
// tell; without one it was the definition.
func (r *Reconciler) whoSet(ctx context.Context, v *visit, annotation string) string {
	if annotation == "" {
		return "the definition (spec.deletion.forceAfter)"
	}
	who := "somebody"
	if live, err := r.Cluster.Get(ctx, v.instance.GroupVersionKind(), v.instance.GetNamespace(), v.instance.GetName()); err == nil {
		if managers := managersOf(live, "annotations", "f:"+annotation); len(managers) > 0 {
			who = strings.Join(managers, " and ")
		}
	}
	return fmt.Sprintf("%s (annotation %s: %s)", who, annotation, v.instance.GetAnnotations()[annotation])
}
