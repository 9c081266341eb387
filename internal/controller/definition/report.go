package definition

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// report writes the definition's status, if it says anything new.
func (r *Reconciler) report(ctx context.Context, v *visit) outcome.Outcome {
	before := condition.Read(v.raw)
	conditions := r.conditions(v, before)
	status := v1alpha1.DefinitionStatus{State: v1alpha1.DefinitionInactive, Conditions: conditions}
	if conditions.IsTrue(v1alpha1.DefinitionReady) {
		status.State = v1alpha1.DefinitionActive
	}
	if g := v.compiled.graph; g != nil {
		status.TopologicalOrder = g.Order()
		for _, n := range g.Nodes {
			if len(n.Dependencies) == 0 {
				continue
			}
			info := v1alpha1.ResourceInformation{ID: n.ID}
			for _, id := range n.Dependencies {
				info.Dependencies = append(info.Dependencies, v1alpha1.Dependency{ID: id})
			}
			status.Resources = append(status.Resources, info)
		}
	}
	return r.writeStatus(ctx, v, before, status)
}

func (r *Reconciler) conditions(v *visit, before condition.Set) condition.Set {
	set, now, generation := before, r.Now(), v.raw.GetGeneration()
	mark := func(kind string, status metav1.ConditionStatus, reason, message string) {
		set = set.Mark(v1alpha1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation}, now)
	}
	if v.compiled.graph != nil {
		mark(v1alpha1.DefinitionGraphAccepted, condition.True, "Valid", accepted(v))
	} else {
		mark(v1alpha1.DefinitionGraphAccepted, condition.False, "InvalidResourceGraph", told(v.compiled.problems.Sorted().Err()))
	}
	switch {
	case v.kind.ready:
		mark(v1alpha1.DefinitionKindReady, condition.True, "Ready", fmt.Sprintf("kind %s has been accepted and ready", v.spec.Schema.Kind))
	case v.kind.unknown:
		mark(v1alpha1.DefinitionKindReady, condition.Unknown, v.kind.reason, v.kind.message)
	default:
		mark(v1alpha1.DefinitionKindReady, condition.False, v.kind.reason, v.kind.message)
	}
	switch {
	case v.entry.serving == nil:
		mark(v1alpha1.DefinitionControllerReady, condition.Unknown, "AwaitingKind", "the controller starts when the kind is served")
	case v.entry.good == nil:
		mark(v1alpha1.DefinitionControllerReady, condition.False, "NoGraph", "the controller takes apart instances that are deleted; others wait for a graph that is accepted")
	default:
		mark(v1alpha1.DefinitionControllerReady, condition.True, "Running", "controller is running")
	}
	return set.Mark(set.Summarize(v1alpha1.DefinitionReady, generation,
		v1alpha1.DefinitionGraphAccepted, v1alpha1.DefinitionKindReady, v1alpha1.DefinitionControllerReady), now)
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
	text := err.Error()
	if len(text) > longestMessage {
		return strings.ToValidUTF8(text[:longestMessage-3], "") + "…"
	}
	return text
}

// reportRemaining tells how many instances a deleted definition waits for.
func (r *Reconciler) reportRemaining(ctx context.Context, v *visit, kind string, count int) outcome.Outcome {
	before := condition.Read(v.raw)
	message := fmt.Sprintf("%d instances of %s remain; the definition goes when they are gone. Delete them, or annotate the definition with %s: \"true\" to leave them behind",
		count, kind, v1alpha1.AllowOrphansAnnotation)
	if count == 1 {
		message = strings.Replace(message, "1 instances of "+kind+" remain", "1 instance of "+kind+" remains", 1)
	}
	conditions := before.Mark(v1alpha1.Condition{
		Type: v1alpha1.DefinitionReady, Status: condition.False, Reason: "InstancesRemain", Message: message, ObservedGeneration: v.raw.GetGeneration(),
	}, r.Now())
	var status v1alpha1.DefinitionStatus
	if raw, ok := v.raw.Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &status); err != nil {
			status = v1alpha1.DefinitionStatus{}
		}
	}
	status.State, status.Conditions = v1alpha1.DefinitionInactive, conditions
	return r.writeStatus(ctx, v, before, status)
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
		return outcome.Done()
	}
	if err != nil {
		return outcome.Fail(fmt.Errorf("write status: %w", err))
	}
	r.record(v, answer)
	was, _ := before.Get(v1alpha1.DefinitionReady)
	is, _ := condition.Set(status.Conditions).Get(v1alpha1.DefinitionReady)
	if is.Status == condition.False && (was.Reason != is.Reason || was.Message != is.Message) {
		r.Events.Event(v.raw, telemetry.Warning, is.Reason, is.Message)
	}
	return outcome.Done()
}
