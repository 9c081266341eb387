package definition

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/serving"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/serving/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// report writes the definition's status if it changes. If a kind could not be looked up, the reconcile is retried,
// and the previous conditions stay, so they do not flap, unless no revision serves yet.
func (v *session) report(ctx context.Context, err error) reconcile.Result {
	if v.lookupErr != nil && v.memory.composers != nil {
		return reconcile.Fail(err)
	}
	before := condition.Read(v.Unstructured)
	conditions := v.markFieldsStored(v.conditions(before), v.GetGeneration())
	status := v1alpha1.DefinitionStatus{ObservedGeneration: v.GetGeneration(), State: v1alpha1.DefinitionInactive, Conditions: conditions}
	if conditions.IsTrue(v1alpha1.DefinitionGraphAccepted) && conditions.IsTrue(v1alpha1.DefinitionKindReady) &&
		conditions.IsTrue(v1alpha1.DefinitionControllerReady) {
		status.State = v1alpha1.DefinitionActive
	}
	if g := v.result.graph; g != nil {
		status.TopologicalOrder, status.Resources = g.TopologicalOrder(), resourceInformation(g)
	}
	status.LastIssuedRevision = revision.Next(v.history.revisions, v.status.LastIssuedRevision) - 1
	if named := v.fallbackAccount().Named; named.Name != "" {
		status.ServiceAccount = &named
	}
	wait := v.statusDelay()
	status.ServingRevision, status.Rollout = v.rollout.step.Next.Serving, v.rollout.step.Next.Rollout
	out := v.writeStatus(ctx, before, status)
	if out.Err != nil || out.RequeueAfter > 0 {
		return out
	}
	v.recordTransitions()
	v.followStatus(ctx)
	if err != nil {
		return reconcile.Fail(err)
	}
	if wait > 0 {
		return reconcile.RequeueAfter(wait)
	}
	return out
}

// resourceInformation lists the nodes of a graph that read other nodes.
func resourceInformation(g *graph.Graph) (out []v1alpha1.ResourceInformation) {
	for _, n := range g.NodesInOrder() {
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

func (v *session) conditions(before condition.Set) condition.Set {
	set, now, generation := before, v.Now(), v.GetGeneration()
	mark := func(kind string, status metav1.ConditionStatus, reason, message string) {
		c := v1alpha1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation}
		if was, hadCondition := before.Get(kind); hadCondition && v.result.graph == nil &&
			(kind == v1alpha1.DefinitionKindReady || kind == v1alpha1.DefinitionControllerReady) {
			c.ObservedGeneration = was.ObservedGeneration // the condition is from an earlier generation
		}
		set = set.Mark(c, now)
	}
	var unknown *lookupError
	status, reason, message := v.resolvedCondition()
	mark(v1alpha1.DefinitionRevisionsResolved, status, reason, message)
	switch {
	case v.result.graph != nil:
		mark(v1alpha1.DefinitionGraphAccepted, condition.True, "Valid", v.acceptedMessage())
	case errors.As(v.lookupErr, &unknown):
		mark(v1alpha1.DefinitionGraphAccepted, condition.Unknown, "KindUnknown", unknown.message())
	default:
		mark(v1alpha1.DefinitionGraphAccepted, condition.False, "InvalidResourceGraph", v.rejectedMessage())
	}
	switch {
	case v.readiness.Ready:
		mark(v1alpha1.DefinitionKindReady, condition.True, "Ready", fmt.Sprintf("kind %s has been accepted and ready", v.source.kind.Kind))
	case v.readiness.Unknown:
		mark(v1alpha1.DefinitionKindReady, condition.Unknown, string(v.readiness.Reason), v.readiness.Message)
	default:
		mark(v1alpha1.DefinitionKindReady, condition.False, string(v.readiness.Reason), v.readiness.Message)
	}
	switch {
	case v.memory.running.Controller == nil:
		mark(v1alpha1.DefinitionControllerReady, condition.Unknown, awaiting, awaitingMessage(v1alpha1.DefinitionControllerReady))
	case v.memory.composers == nil && v.unreadAccount != nil && v.unreadAccount.Reason == watch.LimitExceeded:
		mark(v1alpha1.DefinitionControllerReady, condition.False, string(watch.LimitExceeded), "cannot read the service account: "+v.unreadAccount.Message)
	case v.memory.composers == nil && v.unreadAccount != nil:
		if was, hadCondition := before.Get(v1alpha1.DefinitionControllerReady); !hadCondition || was.ObservedGeneration != generation {
			mark(v1alpha1.DefinitionControllerReady, condition.Unknown, awaiting, awaitingMessage(v1alpha1.DefinitionControllerReady))
		} // otherwise it stays, so a restart does not change it
	case v.memory.composers == nil:
		mark(v1alpha1.DefinitionControllerReady, condition.False, "NoGraph", "no accepted graph: the controller only deletes the children of deleted instances")
	case len(v.memory.composers.unavailable) > 0:
		mark(v1alpha1.DefinitionControllerReady, condition.False, string(plan.ServiceAccountNotFound), v.memory.composers.unavailableMessage())
	case v.memory.running.State().Phase == watch.Unavailable:
		state := v.memory.running.State()
		mark(v1alpha1.DefinitionControllerReady, condition.False, string(state.Reason), "cannot read instances: "+state.Message)
	default:
		mark(v1alpha1.DefinitionControllerReady, condition.True, "Running", "controller is running")
	}
	if c, ok := v.permissionsCondition(before); ok {
		mark(c.Type, c.Status, c.Reason, c.Message)
	} else {
		set = set.Remove(v1alpha1.DefinitionPermissionsGranted)
	}
	ready := set.Summarize(v1alpha1.DefinitionReady, generation,
		v1alpha1.DefinitionRevisionsResolved, v1alpha1.DefinitionGraphAccepted, v1alpha1.DefinitionKindReady, v1alpha1.DefinitionControllerReady)
	return set.Mark(ready, now).MarkProgress(condition.ProgressOf(ready, !passingReasons[ready.Reason]), generation, now)
}

// passingReasons are the reasons of False conditions that end without an action of a user.
var passingReasons = map[string]bool{
	kindNotReady: true, revisionsUnreadable: true, string(watch.WaitingForKind): true, string(watch.Degraded): true,
}

func (v *session) rejectedMessage() string {
	if len(v.result.problems) == 0 {
		return "" // unknown
	}
	return messageOf(fmt.Errorf("failed to build resourcegraphdefinition: %w", v.result.problems.Sorted().Err()))
}

const awaiting = "AwaitingReconciliation"

// awaitingMessage is exactly kro's message for that reason; the other condition says why.
func awaitingMessage(kind string) string {
	return fmt.Sprintf("condition %q is awaiting reconciliation", kind)
}

func (v *session) acceptedMessage() string {
	text := "resource graph and schema are valid"
	if missing := v.result.graph.Missing; len(missing) > 0 {
		names := make([]string, len(missing))
		for i, gvk := range missing {
			names[i] = gvk.Kind + "." + gvk.Version + "." + gvk.Group
		}
		text += "; resources of kinds that are not installed are checked once these are: " + strings.Join(names, ", ")
	}
	if outputs := v.result.graph.SecretOutputs; len(outputs) > 0 {
		text += "; data of Secrets is in outputs, which is accepted (secretOutputs: Warn): " + outputs.Err().Error()
	}
	if warnings := v.result.graph.Warnings; len(warnings) > 0 {
		text += "; " + warnings.Err().Error()
	}
	return diag.Truncate(text, maxMessageLength)
}

// maxMessageLength is in bytes.
const maxMessageLength = 32768

func messageOf(err error) string {
	if err == nil {
		return ""
	}
	return diag.TruncateLines(err.Error(), maxMessageLength)
}

// ReportEnding says how many instances a deleted definition waits for, or why that is not known.
func (v *session) ReportEnding(ctx context.Context, e *serving.Ending, remaining *serving.Remaining) reconcile.Result {
	before := condition.Read(v.Unstructured)
	reason, message := remainingText(remaining)
	conditions := before.Mark(v1alpha1.Condition{
		Type: v1alpha1.DefinitionReady, Status: condition.False, Reason: reason, Message: message, ObservedGeneration: v.GetGeneration(),
	}, v.Now()).MarkProgress(condition.Progress{}, v.GetGeneration(), v.Now())
	status := statusOf(v.Unstructured)
	status.ObservedGeneration, status.State, status.Conditions = v.GetGeneration(), v1alpha1.DefinitionInactive, conditions
	return v.writeStatus(ctx, before, status)
}

func remainingText(remaining *serving.Remaining) (reason, message string) {
	const orOrphan = "or set the definition's annotation " + v1alpha1.AllowOrphansAnnotation + `: "true" to orphan instances`
	switch {
	case !remaining.Known():
		return v1alpha1.ReasonInstancesUnknown, fmt.Sprintf("cannot determine whether instances of %s remain: %s. The definition is deleted once none remains. Resolve that, %s", remaining.Kind, remaining.State.Message, orOrphan)
	case len(remaining.Objects) == 1:
		return v1alpha1.ReasonInstancesRemain, fmt.Sprintf("1 instance of %s remains; the definition is deleted once it is gone. Delete it, %s",
			remaining.Kind, orOrphan)
	}
	return v1alpha1.ReasonInstancesRemain, fmt.Sprintf("%d instances of %s remain; the definition is deleted once they are gone. Delete them, %s",
		len(remaining.Objects), remaining.Kind, orOrphan)
}

func (v *session) writeStatus(ctx context.Context, before condition.Set, status v1alpha1.DefinitionStatus) reconcile.Result {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return reconcile.Fail(fmt.Errorf("encode status: %w", err))
	}
	fields["conditions"] = condition.Set(status.Conditions).Unstructured()
	wrote, out := v.WriteStatus(ctx, fields)
	if out.IsFinal() {
		return out
	}
	if !wrote {
		return reconcile.Done()
	}
	was, _ := before.Get(v1alpha1.DefinitionReady)
	is, _ := condition.Set(status.Conditions).Get(v1alpha1.DefinitionReady)
	if is.Status == condition.False && (was.Status != is.Status || was.Reason != is.Reason) {
		v.Events.Event(v.Unstructured, telemetry.Warning, is.Reason, is.Message)
	}
	return reconcile.Done()
}
