package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Types of conditions that are not the dialect's own: Synced is False while an object is paused, and Ready sums up the others.
const (
	typeSynced = "Synced"
	typeReady  = "Ready"
)

// report writes the status of a package.
func (r *Packages) report(ctx context.Context, s *packageState) reconcile.Result {
	installed, healthy, waits := r.conditions(s)
	status := maps.Clone(statusOf(s.raw.Object))
	if s.plan.Current != "" {
		status["currentRevision"], status["currentIdentifier"] = s.plan.Current, s.pkg.Spec.Package
	}
	set(status, "resolvedPackage", s.source.Image)
	set(status, "appliedImageConfigRefs", refs(s.source.Applied))
	before := condition.Read(s.raw.Unstructured)
	was, _ := before.Get(v1.TypeInstalled)
	about := s.raw.Unstructured
	wrote, out := r.writeConditions(ctx, s.raw, status, waits, installed, healthy)
	if wrote && s.problem != "" && was.Message != s.problem {
		r.Events.Event(about, telemetry.Warning, eventUnpack, s.problem)
	}
	return out
}

// conditions also reports whether what is not true becomes so without a user.
func (r *Packages) conditions(s *packageState) (installed, healthy v1alpha1.Condition, waits bool) {
	installed = v1alpha1.Condition{Type: v1.TypeInstalled, Status: condition.True, Reason: v1.ReasonActive}
	healthy = v1alpha1.Condition{Type: v1.TypeHealthy, Status: condition.Unknown, Reason: v1.ReasonUnknownHealth}
	o := s.read[s.plan.Current]
	switch {
	case s.plan.Current == "" || o == nil:
		installed.Status, installed.Reason = condition.False, v1.ReasonUnpacking
		installed.Message = cmp.Or(s.problem, fmt.Sprintf("%s is being read from its registry", s.pkg.Spec.Package))
		waits = true
		if was, _ := condition.Read(s.raw.Unstructured).Get(v1.TypeInstalled); s.problem == "" && was.Reason == installed.Reason && was.ObservedGeneration == s.raw.GetGeneration() {
			installed.Message = was.Message // what was found before a restart stays, until it is found again
			return installed, r.lastHealth(s, healthy), waits
		}
		for _, one := range s.revisions { // an upgrade that failed does not touch what runs
			if one.Spec.DesiredState == v1.RevisionActive {
				installed.Message += "; revision " + one.Name + " stays active"
				o = s.read[one.Name]
			}
		}
	case stringAt(o.Object, "spec", "desiredState") != string(v1.RevisionActive):
		installed.Status, installed.Reason = condition.False, v1.ReasonInactive
		installed.Message = fmt.Sprintf("set spec.desiredState of %s %s to Active", o.GetKind(), o.GetName())
	default:
		installed.Message = s.problem // of the policy Always
	}
	if o == nil {
		return installed, healthy, waits
	}
	return r.healthOf(o, installed, healthy, waits)
}

// lastHealth is the condition as it was.
func (r *Packages) lastHealth(s *packageState, otherwise v1alpha1.Condition) v1alpha1.Condition {
	if was, ok := condition.Read(s.raw.Unstructured).Get(v1.TypeHealthy); ok {
		was.LastTransitionTime = nil
		return was
	}
	return otherwise
}

// healthOf adds the conditions that come from a revision.
func (r *Packages) healthOf(o *unstructured.Unstructured, installed, healthy v1alpha1.Condition, waits bool) (v1alpha1.Condition, v1alpha1.Condition, bool) {
	kinds := []string{v1.TypeRevisionHealthy}
	if r.runs() {
		kinds = append(kinds, v1.TypeRuntimeHealthy)
	}
	all := condition.Read(o)
	sum := all.Summarize(v1.TypeHealthy, o.GetGeneration(), kinds...)
	switch sum.Status {
	case condition.True:
		healthy.Status, healthy.Reason = condition.True, v1.ReasonHealthy
		if c, ok := all.Get(v1.TypeRuntimeHealthy); ok {
			healthy.Message = c.Message
		}
		if c, ok := all.Get(v1.TypeRuntimeActive); ok && c.Status != condition.True {
			healthy.Reason, healthy.Message = c.Reason, c.Message
		}
	case condition.False:
		healthy.Status, healthy.Reason, healthy.Message = condition.False, v1.ReasonUnhealthy, o.GetName()+": "+sum.Message
		_, waits = all.Get(condition.TypeReconciling)
	default:
		waits = true
	}
	return installed, healthy, waits
}
