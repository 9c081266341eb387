package definition

import (
	"context"
	"fmt"

	"github.com/espalier-dev/espalier/internal/serving"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"

	"github.com/espalier-dev/espalier/internal/telemetry"
)

// ReasonInvalid is the reason of False conditions of an invalid definition. Crossplane has no such reason.
const ReasonInvalid = "InvalidDefinition"

func (v *session) report(ctx context.Context) reconcile.Result {
	set := condition.Read(v.Unstructured)
	set = v.mark(set, v1.TypeEstablished, v.memory.composite.status(v.composite, v1.ReasonWatchingComposite).condition(v.problems, v.memory.validated.notes))
	if v.offersClaim() || v.memory.claim.Controller != nil {
		set = v.mark(set, v1.TypeOffered, v.memory.claim.status(v.claim, v1.ReasonWatchingClaim).condition(v.problems, ""))
	} else {
		set = set.Remove(v1.TypeOffered)
	}
	return v.writeStatus(ctx, v.markReady(set))
}

// markReady sets Ready, which Crossplane's definitions lack, from the other conditions, and Reconciling or Stalled.
func (v *session) markReady(set condition.Set) condition.Set {
	parts := []string{v1.TypeEstablished}
	if _, offers := set.Get(v1.TypeOffered); offers {
		parts = append(parts, v1.TypeOffered)
	}
	ready := set.Summarize(v1.TypeReady, v.GetGeneration(), parts...)
	progress := condition.ProgressOf(ready, !passingReasons[ready.Reason])
	if v.GetDeletionTimestamp() != nil {
		progress = condition.Progress{}
	}
	return set.Mark(ready, v.Now()).MarkProgress(progress, v.GetGeneration(), v.Now())
}

// passingReasons are the reasons of False conditions that end without an action of a user.
var passingReasons = map[string]bool{string(watch.WaitingForKind): true, string(watch.Degraded): true}

type kindStatus struct {
	readiness serving.Readiness
	// serving says that its controller runs, and state is the state of the controller's watch.
	serving bool
	state   watch.State
	good    string
}

func (m *running) status(readiness *serving.Readiness, good string) kindStatus {
	out := kindStatus{readiness: *readiness, good: good, serving: m.Controller != nil}
	if out.serving {
		out.state = m.State()
	}
	return out
}

func (a kindStatus) condition(problems diag.List, notes string) v1alpha1.Condition {
	no := func(reason, message string) v1alpha1.Condition {
		return v1alpha1.Condition{Status: condition.False, Reason: reason, Message: message}
	}
	unknown := func(reason, message string) v1alpha1.Condition {
		return v1alpha1.Condition{Status: condition.Unknown, Reason: reason, Message: message}
	}
	switch {
	case len(problems) > 0:
		text := problems.Err().Error()
		if a.serving {
			text += "\nthe last valid definition is still served"
		}
		return no(ReasonInvalid, text)
	case a.readiness.Unknown:
		return unknown(string(a.readiness.Reason), a.readiness.Message)
	case !a.readiness.Ready:
		return no(string(a.readiness.Reason), a.readiness.Message)
	case !a.serving:
		return unknown(string(serving.Establishing), "the controller starts when the kind is served")
	case a.state.Phase == watch.Unavailable:
		return no(string(a.state.Reason), "cannot read objects of the kind: "+a.state.Message)
	}
	return v1alpha1.Condition{Status: condition.True, Reason: a.good, Message: notes}
}

// ReportEnding reports the progress of a definition's deletion: the remaining objects of a
// kind, or that only its CustomResourceDefinition remains.
func (v *session) ReportEnding(ctx context.Context, e *serving.Ending, remaining *serving.Remaining) reconcile.Result {
	text := fmt.Sprintf("waiting for CustomResourceDefinition %s to be deleted", e.CRD.Name)
	if remaining != nil {
		text = remainingText(remaining)
	}
	return v.writeStatus(ctx, v.markReady(v.endingConditions(e.Finalizer == v1.OfferedFinalizer, text)))
}

// endingConditions: claims are deleted first.
func (v *session) endingConditions(ofClaims bool, text string) condition.Set {
	set := condition.Read(v.Unstructured)
	composites, claims := text, "no claim remains"
	if ofClaims {
		composites, claims = "composites are deleted after their claims", text
	}
	set = v.mark(set, v1.TypeEstablished, v1alpha1.Condition{Status: condition.False, Reason: v1.ReasonTerminatingComposite, Message: composites})
	if _, offered := set.Get(v1.TypeOffered); offered || ofClaims {
		set = v.mark(set, v1.TypeOffered, v1alpha1.Condition{Status: condition.False, Reason: v1.ReasonTerminatingClaim, Message: claims})
	}
	return set
}

func (v *session) mark(set condition.Set, kind string, c v1alpha1.Condition) condition.Set {
	c.Type, c.Message, c.ObservedGeneration = kind, diag.TruncateLines(c.Message, maxMessageLength), v.GetGeneration()
	return set.Mark(c, v.Now())
}

// maxMessageLength is in bytes.
const maxMessageLength = 32768

// writeStatus also records transitions as events.
func (v *session) writeStatus(ctx context.Context, set condition.Set) reconcile.Result {
	status := v1.DefinitionStatus{ObservedGeneration: v.GetGeneration()}
	if c := v.memory.composite.Controller; c != nil {
		status.Controllers.CompositeResourceType = v1.TypeReferenceTo(c.Kind)
	}
	if c := v.memory.claim.Controller; c != nil {
		status.Controllers.CompositeResourceClaimType = v1.TypeReferenceTo(c.Kind)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return reconcile.Fail(fmt.Errorf("encode status: %w", err))
	}
	fields["conditions"] = set.Unstructured()
	before := condition.Read(v.Unstructured)
	wrote, out := v.WriteStatus(ctx, fields)
	if out.IsFinal() {
		return out
	}
	if wrote {
		v.recordTransitions(before, set)
	}
	return reconcile.Done()
}

// eventReasons are Crossplane's reasons of events.
var eventReasons = map[string]struct{ serve, end string }{
	v1.TypeEstablished: {"EstablishComposite", "TerminateComposite"},
	v1.TypeOffered:     {"OfferClaim", "RedactClaim"},
}

// recordTransitions records an event when a kind becomes served, stops being served, or is being
// deleted.
func (v *session) recordTransitions(before, after condition.Set) {
	for _, kind := range []string{v1.TypeEstablished, v1.TypeOffered} {
		was, _ := before.Get(kind)
		is, there := after.Get(kind)
		if !there || was.Status == is.Status && was.Reason == is.Reason {
			continue
		}
		reasons := eventReasons[kind]
		switch {
		case is.Status == condition.True:
			v.Events.Event(v.Unstructured, telemetry.Normal, reasons.serve, "the kind is served")
		case is.Reason == v1.ReasonTerminatingComposite || is.Reason == v1.ReasonTerminatingClaim:
			v.Events.Event(v.Unstructured, telemetry.Normal, reasons.end, is.Message)
		case is.Status == condition.False:
			v.Events.Event(v.Unstructured, telemetry.Warning, reasons.serve, is.Message)
		}
	}
}
