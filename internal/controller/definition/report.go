package definition

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
)

// report writes the definition's status, if it says anything new. A pass that
// failed because something couldn't be found out is repeated; what was said
// before stays, so that nothing flaps, unless nothing serves yet.
func (r *Reconciler) report(ctx context.Context, v *visit, failed error) outcome.Outcome {
	if v.unsure != nil && v.entry.chooser != nil {
		return outcome.Fail(failed)
	}
	before := condition.Read(v.raw)
	conditions := r.conditions(v, before)
	status := v1alpha1.DefinitionStatus{State: v1alpha1.DefinitionInactive, Conditions: conditions}
	if conditions.IsTrue(v1alpha1.DefinitionGraphAccepted) && conditions.IsTrue(v1alpha1.DefinitionKindReady) && conditions.IsTrue(v1alpha1.DefinitionControllerReady) {
		status.State = v1alpha1.DefinitionActive
	}
	if g := v.compiled.graph; g != nil {
		status.TopologicalOrder, status.Resources = g.Order(), information(g)
	}
	status.LastIssuedRevision = revision.Next(v.revisions, v.status.LastIssuedRevision) - 1
	if named := v.account.Named; named.Name != "" {
		status.ServiceAccount = &named
	}
	wait := r.paced(v)
	status.ServingRevision, status.Rollout = v.step.Next.Serving, v.step.Next.Rollout
	out := r.writeStatus(ctx, v, before, status)
	if out.Err != nil || out.After > 0 {
		return out
	}
	r.announce(v)
	if failed != nil {
		return outcome.Fail(failed)
	}
	if wait > 0 {
		return outcome.Wait(wait)
	}
	return out
}

// information lists the nodes of a graph that read others.
func information(g *graph.Graph) (out []v1alpha1.ResourceInformation) {
	for _, n := range g.InOrder() {
		if len(n.Dependencies) == 0 {
			continue
		}
		info := v1alpha1.ResourceInformation{ID: n.ID}
		for _, id := range n.Dependencies {
			info.Dependencies = append(info.Dependencies, v1alpha1.Dependency{ID: id})
		}
		out = append(out, info)
	}
	return out
}

func (r *Reconciler) conditions(v *visit, before condition.Set) condition.Set {
	set, now, generation := before, r.Now(), v.raw.GetGeneration()
	mark := func(kind string, status metav1.ConditionStatus, reason, message string) {
		c := v1alpha1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation}
		if was, told := before.Get(kind); told && v.compiled.graph == nil && (kind == v1alpha1.DefinitionKindReady || kind == v1alpha1.DefinitionControllerReady) {
			c.ObservedGeneration = was.ObservedGeneration // it is what was made of an earlier one
		}
		set = set.Mark(c, now)
	}
	var unsure *unsureError
	status, reason, message := resolved(v)
	mark(v1alpha1.DefinitionRevisionsResolved, status, reason, message)
	switch {
	case v.compiled.graph != nil:
		mark(v1alpha1.DefinitionGraphAccepted, condition.True, "Valid", accepted(v))
	case errors.As(v.unsure, &unsure):
		mark(v1alpha1.DefinitionGraphAccepted, condition.Unknown, "KindUnknown", unsure.message())
	default:
		mark(v1alpha1.DefinitionGraphAccepted, condition.False, "InvalidResourceGraph", rejected(v))
	}
	switch {
	case v.kind.Ready:
		mark(v1alpha1.DefinitionKindReady, condition.True, "Ready", fmt.Sprintf("kind %s has been accepted and ready", v.wants.Kind))
	case v.kind.Unknown:
		mark(v1alpha1.DefinitionKindReady, condition.Unknown, v.kind.Reason, v.kind.Message)
	default:
		mark(v1alpha1.DefinitionKindReady, condition.False, v.kind.Reason, v.kind.Message)
	}
	switch {
	case v.entry.serving == nil:
		mark(v1alpha1.DefinitionControllerReady, condition.Unknown, awaiting, awaited(v1alpha1.DefinitionControllerReady))
	case v.entry.chooser == nil:
		mark(v1alpha1.DefinitionControllerReady, condition.False, "NoGraph", "the controller takes apart instances that are deleted; others wait for a graph that is accepted")
	case v.entry.serving.State().Phase == watch.Unavailable:
		state := v.entry.serving.State()
		mark(v1alpha1.DefinitionControllerReady, condition.False, string(state.Reason), "instances can't be read: "+state.Message)
	default:
		mark(v1alpha1.DefinitionControllerReady, condition.True, "Running", "controller is running")
	}
	if c, ok := r.permitted(v, before); ok {
		mark(c.Type, c.Status, c.Reason, c.Message)
	} else {
		set = set.Drop(v1alpha1.DefinitionPermissionsGranted)
	}
	return set.Mark(set.Summarize(v1alpha1.DefinitionReady, generation,
		v1alpha1.DefinitionRevisionsResolved, v1alpha1.DefinitionGraphAccepted, v1alpha1.DefinitionKindReady, v1alpha1.DefinitionControllerReady), now)
}

// rejected says what is wrong with the graph, all of it.
func rejected(v *visit) string {
	if len(v.compiled.problems) == 0 {
		return "" // it couldn't be found out
	}
	return told(fmt.Errorf("failed to build resourcegraphdefinition: %w", v.compiled.problems.Sorted().Err()))
}

// awaiting is the reason of what nothing could be done about yet.
const awaiting = "AwaitingReconciliation"

// awaited is the dialect's message for that, to the letter: the condition that stands in the
// way says why.
func awaited(kind string) string {
	return fmt.Sprintf("condition %q is awaiting reconciliation", kind)
}

func accepted(v *visit) string {
	missing := v.compiled.graph.Missing
	if len(missing) == 0 {
		return "resource graph and schema are valid"
	}
	names := make([]string, len(missing))
	for i, gvk := range missing {
		names[i] = gvk.Kind + "." + gvk.Version + "." + gvk.Group
	}
	return "resource graph and schema are valid; the resources of kinds that are not installed yet are checked when these appear: " + strings.Join(names, ", ")
}

// longestMessage is what a condition's message may hold.
const longestMessage = 32768

func told(err error) string {
	if err == nil {
		return ""
	}
	return diag.Cut(err.Error(), longestMessage)
}

// reportRemaining tells how many instances a deleted definition waits for, or
// why that isn't known. While they are being read for the first time it is only a
// moment, and nothing is told.
func (r *Reconciler) reportRemaining(ctx context.Context, v *visit, kind string, left remaining) outcome.Outcome {
	if left.state.Phase == watch.Syncing {
		return outcome.Done() // the lease wakes the definition
	}
	count := left.tally(r.Now())
	if wait := count.Due(v.entry.told, r.Now()); wait > 0 {
		return outcome.Wait(wait)
	}
	before := condition.Read(v.raw)
	reason, message := leftText(kind, left)
	conditions := before.Mark(v1alpha1.Condition{
		Type: v1alpha1.DefinitionReady, Status: condition.False, Reason: reason, Message: message, ObservedGeneration: v.raw.GetGeneration(),
	}, r.Now())
	status := statusOf(v.raw)
	status.State, status.Conditions = v1alpha1.DefinitionInactive, conditions
	out := r.writeStatus(ctx, v, before, status)
	if out.Err == nil {
		v.entry.told = count
	}
	return out
}

func leftText(kind string, left remaining) (reason, message string) {
	const wayOut = "or annotate the definition with " + v1alpha1.AllowOrphansAnnotation + `: "true" to leave them behind`
	switch {
	case left.state.Phase != watch.Synced:
		return "InstancesUnknown", fmt.Sprintf("it can't be told whether instances of %s remain: %s. The definition goes when they are known to be gone; repair that, %s", kind, left.state.Message, wayOut)
	case left.count == 1:
		return "InstancesRemain", fmt.Sprintf("1 instance of %s remains; the definition goes when they are gone. Delete them, %s", kind, wayOut)
	}
	return "InstancesRemain", fmt.Sprintf("%d instances of %s remain; the definition goes when they are gone. Delete them, %s", left.count, kind, wayOut)
}

// refused tells, as an event, of a write to the definition itself that is refused and that
// won't be granted by itself.
func (r *Reconciler) refused(v *visit, reason, what string, err error) {
	if cluster.IsLasting(err) {
		v.entry.refusals.Refused(r.Events, v.raw, reason, what+": "+cluster.Discreet(err)+cluster.Remedy(err))
	}
}

func (r *Reconciler) writeStatus(ctx context.Context, v *visit, before condition.Set, status v1alpha1.DefinitionStatus) outcome.Outcome {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return outcome.Fail(fmt.Errorf("encode status: %w", err))
	}
	fields["conditions"] = condition.Set(status.Conditions).Unstructured()
	if object.Digest(v.raw.Object["status"]) == object.Digest(fields) {
		return outcome.Done()
	}
	answer, err := r.Cluster.WriteStatus(ctx, v.raw, fields, v1alpha1.StatusManager)
	if cluster.IsGone(err) {
		return outcome.Overtaken()
	}
	if err != nil {
		r.refused(v, telemetry.FailedStatusUpdate, "its status can't be written, and doesn't tell how it is", err)
		return outcome.Fail(fmt.Errorf("write status: %w", err))
	}
	v.entry.refusals.Granted(telemetry.FailedStatusUpdate)
	r.record(v, answer)
	was, _ := before.Get(v1alpha1.DefinitionReady)
	is, _ := condition.Set(status.Conditions).Get(v1alpha1.DefinitionReady)
	if is.Status == condition.False && (was.Status != is.Status || was.Reason != is.Reason) {
		r.Events.Event(v.raw, telemetry.Warning, is.Reason, is.Message)
	}
	return outcome.Done()
}
