package establish

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/controller/publish"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
)

// ReasonInvalid is why the kinds of a definition can't be served as it has them. The
// dialect's own reasons are those of what goes well.
const ReasonInvalid = "InvalidDefinition"

// longestMessage is what a condition's message may hold.
const longestMessage = 32768

// aspect is a kind as a condition tells of it.
type aspect struct {
	standing publish.Standing
	// serving says that it is served, and state how its watch goes.
	serving bool
	state   watch.State
	// good is the reason when all is well.
	good string
}

// condition says how a kind is.
func (a aspect) condition(problems diag.List, notes string) v1alpha1.Condition {
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
			text += "\nthe kind is served as it was before"
		}
		return no(ReasonInvalid, text)
	case a.standing.Unknown:
		return unknown(a.standing.Reason, a.standing.Message)
	case !a.standing.Ready:
		return no(a.standing.Reason, a.standing.Message)
	case !a.serving:
		return unknown(publish.Establishing, "the controller starts when the kind is served")
	case a.state.Phase == watch.Unavailable:
		return no(string(a.state.Reason), "objects of the kind can't be read: "+a.state.Message)
	}
	return v1alpha1.Condition{Status: condition.True, Reason: a.good, Message: notes}
}

func (s *serving) aspect(standing publish.Standing, good string) aspect {
	out := aspect{standing: standing, good: good, serving: s.controller != nil}
	if out.serving {
		out.state = s.controller.State()
	}
	return out
}

// report writes the definition's status, if it says anything new.
func (r *Reconciler) report(ctx context.Context, v *visit) outcome.Outcome {
	set := condition.Read(v.raw)
	set = r.mark(set, v, v1.TypeEstablished, v.entry.composite.aspect(v.composite, v1.ReasonWatchingComposite).condition(v.problems, v.entry.judged.notes))
	if v.offers() || v.entry.claim.controller != nil {
		set = r.mark(set, v, v1.TypeOffered, v.entry.claim.aspect(v.claim, v1.ReasonWatchingClaim).condition(v.problems, ""))
	} else {
		set = set.Drop(v1.TypeOffered)
	}
	return r.writeStatus(ctx, v, set)
}

// reportEnding tells how far a deleted definition is: what is left of a stage, or that only
// its CustomResourceDefinition is. While objects are being read for the first time it is
// only a moment, and nothing is told.
func (r *Reconciler) reportEnding(ctx context.Context, v *visit, s stage, left *remaining) (out outcome.Outcome) {
	now, text := r.Now(), ""
	if left == nil {
		text = fmt.Sprintf("waiting for CustomResourceDefinition %s to go", s.crd.Name)
	} else {
		if left.state.Phase == watch.Syncing {
			return outcome.Done() // the lease wakes the definition
		}
		count := left.tally(now)
		if wait := count.Due(s.serving.told, now); wait > 0 {
			return outcome.Wait(wait)
		}
		text = left.String()
		defer func() {
			if out.Err == nil {
				s.serving.told = count
			}
		}()
	}
	return r.writeStatus(ctx, v, r.ending(v, s, text))
}

// ending is how the conditions say where a deletion is: claims go first.
func (r *Reconciler) ending(v *visit, s stage, text string) condition.Set {
	set := condition.Read(v.raw)
	composites, claims := text, "no claim remains"
	if s.condition == v1.TypeOffered {
		composites, claims = "composites go once their claims have gone", text
	}
	set = r.mark(set, v, v1.TypeEstablished, v1alpha1.Condition{Status: condition.False, Reason: v1.ReasonTerminatingComposite, Message: composites})
	if _, offered := set.Get(v1.TypeOffered); offered || s.condition == v1.TypeOffered {
		set = r.mark(set, v, v1.TypeOffered, v1alpha1.Condition{Status: condition.False, Reason: v1.ReasonTerminatingClaim, Message: claims})
	}
	return set
}

func (r *Reconciler) mark(set condition.Set, v *visit, kind string, c v1alpha1.Condition) condition.Set {
	c.Type, c.Message, c.ObservedGeneration = kind, diag.Cut(c.Message, longestMessage), v.raw.GetGeneration()
	return set.Mark(c, r.Now())
}

// refused tells, as an event, of a write to the definition itself that is refused and that
// won't be granted by itself.
func (r *Reconciler) refused(v *visit, reason, what string, err error) {
	if cluster.IsLasting(err) {
		v.entry.refusals.Refused(r.Events, v.raw, reason, what+": "+cluster.Discreet(err)+cluster.Remedy(err))
	}
}

// writeStatus writes the definition's status, if it says anything new, and tells of
// transitions as events.
func (r *Reconciler) writeStatus(ctx context.Context, v *visit, set condition.Set) outcome.Outcome {
	var status v1.DefinitionStatus
	if c := v.entry.composite.controller; c != nil {
		status.Controllers.CompositeResourceType = v1.TypeReferenceTo(c.Kind)
	}
	if c := v.entry.claim.controller; c != nil {
		status.Controllers.CompositeResourceClaimType = v1.TypeReferenceTo(c.Kind)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return outcome.Fail(fmt.Errorf("encode status: %w", err))
	}
	fields["conditions"] = set.Unstructured()
	if object.Digest(v.raw.Object["status"]) == object.Digest(fields) {
		return outcome.Done()
	}
	before := condition.Read(v.raw)
	err = r.write(v, func() (*unstructured.Unstructured, error) {
		return r.Cluster.WriteStatus(ctx, v.raw, fields, Manager)
	})
	if cluster.IsGone(err) {
		return outcome.Overtaken()
	}
	if err != nil {
		r.refused(v, telemetry.FailedStatusUpdate, "its status can't be written, and doesn't tell how it is", err)
		return outcome.Fail(fmt.Errorf("write status: %w", err))
	}
	v.entry.refusals.Granted(telemetry.FailedStatusUpdate)
	r.announce(v, before, set)
	return outcome.Done()
}

// Reasons of events, which the dialect's users know.
var eventReasons = map[string]struct{ serve, end string }{
	v1.TypeEstablished: {"EstablishComposite", "TerminateComposite"},
	v1.TypeOffered:     {"OfferClaim", "RedactClaim"},
}

// announce tells of transitions: that a kind is served, that it isn't, and that it ends.
func (r *Reconciler) announce(v *visit, before, after condition.Set) {
	for _, kind := range []string{v1.TypeEstablished, v1.TypeOffered} {
		was, _ := before.Get(kind)
		is, there := after.Get(kind)
		if !there || was.Status == is.Status && was.Reason == is.Reason {
			continue
		}
		reasons := eventReasons[kind]
		switch {
		case is.Status == condition.True:
			r.Events.Event(v.raw, telemetry.Normal, reasons.serve, "the kind is served")
		case is.Reason == v1.ReasonTerminatingComposite || is.Reason == v1.ReasonTerminatingClaim:
			r.Events.Event(v.raw, telemetry.Normal, reasons.end, is.Message)
		case is.Status == condition.False:
			r.Events.Event(v.raw, telemetry.Warning, reasons.serve, is.Message)
		}
	}
}
