package claim

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/composite"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// Dialect is how claims say how they are.
type Dialect struct {
	composite.Dialect
	// Composite is the kind that is claimed.
	Composite schema.GroupVersionKind
}

// reasonWaiting is why a claim isn't ready whose composite isn't.
const reasonWaiting = "Waiting"

// Refers is the composite that the claim names, of which kind isn't for the claim to say,
// and its Secret, once somebody has written that. While the claim is being deleted a
// Secret without the engine's marks is left to the garbage collector.
func (d Dialect) References(o *unstructured.Unstructured) []instance.Reference {
	var out []instance.Reference
	claim := xrd.At(o, xrd.ClaimPlaces())
	if ref, bound := claim.Composite(); bound {
		out = append(out, instance.Reference{Node: compositeNode, Need: plan.Need{Kind: d.Composite, Name: ref.Name}})
	}
	ref, wanted := claim.ConnectionSecret()
	if wanted && claim.LastPublished() != "" && o.GetDeletionTimestamp() == nil {
		out = append(out, instance.Reference{Node: secretNode, Need: plan.Need{Kind: secretKind, Namespace: o.GetNamespace(), Name: ref.Name}})
	}
	return out
}

// Resting is a claim while it is paused.
func (Dialect) Suspended(claim *unstructured.Unstructured) string { return composite.Paused(claim) }

// Live says whether the claim's composite could be asked for, and whether it is ready.
func (Dialect) LiveConditions(before condition.Set, desired plan.Desired, s plan.Summary, at instance.Moment) condition.Set {
	set := composite.Synced(before, s, at)
	ready := v1alpha1.Condition{Type: v1.TypeReady, Status: condition.True, Reason: v1.ReasonAvailable}
	if s.Unready != "" {
		ready.Status, ready.Reason = condition.False, reasonWaiting
		ready.Message = "Claim is waiting for composite resource to become Ready: " + s.Unready
	}
	set = at.Mark(set, ready)
	var theirs condition.Set
	for _, c := range desired.Conditions {
		theirs = append(theirs, c)
		set = at.Mark(set, c)
	}
	for _, c := range set {
		if _, told := theirs.Get(c.Type); !told && desired.Problem.Reason == "" && !composite.IsSystem(c) {
			set = set.Drop(c.Type)
		}
	}
	return set
}
