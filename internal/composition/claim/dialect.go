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

// Dialect computes the conditions and references of claims.
type Dialect struct {
	composite.Dialect
	// Composite is the composite kind.
	Composite schema.GroupVersionKind
}

const reasonWaiting = "Waiting"

func waiting(why string) v1alpha1.Condition {
	return v1alpha1.Condition{Type: v1.TypeReady, Status: condition.False, Reason: reasonWaiting,
		Message: "Claim is waiting for composite resource to become Ready: " + why}
}

// References are the composite that the claim references, of the kind that the definition
// determines, and the connection Secret, once it is published. While the claim is being
// deleted, a Secret without the engine's labels is left to the garbage collector.
func (d Dialect) References(o *unstructured.Unstructured) []instance.Reference {
	var out []instance.Reference
	claim := xrd.NewInstance(o, xrd.ClaimLayout())
	if ref, bound := claim.CompositeRef(); bound {
		out = append(out, instance.Reference{Node: compositeNode, Need: plan.Need{Kind: d.Composite, Name: ref.Name}})
	}
	ref, wanted := claim.ConnectionSecretRef()
	if wanted && claim.LastPublished() != "" && o.GetDeletionTimestamp() == nil {
		out = append(out, instance.Reference{Node: secretNode, Need: plan.Need{Kind: secretKind, Namespace: o.GetNamespace(), Name: ref.Name}})
	}
	return out
}

// Suspended is why the claim isn't reconciled: it is paused.
func (Dialect) Suspended(claim *unstructured.Unstructured) string { return composite.Paused(claim) }

// LiveConditions sets Synced and Ready, and the composite's conditions that the claim shows. While the desired state is
// unknown, Ready stays True if it is.
func (Dialect) LiveConditions(before condition.Set, desired plan.Desired, s plan.Summary, at instance.Moment) condition.Set {
	set := composite.MarkSynced(before, s, at)
	switch {
	case s.Unready != "":
		set = at.Mark(set, waiting(s.Unready))
	case desired.Problem.Reason != "" && !before.IsTrue(v1.TypeReady):
		set = at.Mark(set, waiting(desired.Problem.Message))
	case desired.Problem.Reason == "":
		set = at.Mark(set, v1alpha1.Condition{Type: v1.TypeReady, Status: condition.True, Reason: v1.ReasonAvailable})
	}
	var fromComposite condition.Set
	for _, c := range desired.Conditions {
		fromComposite = append(fromComposite, c)
		set = at.Mark(set, c)
	}
	for _, c := range set {
		if _, current := fromComposite.Get(c.Type); !current && desired.Problem.Reason == "" && !composite.IsSystemCondition(c) {
			set = set.Remove(c.Type)
		}
	}
	return composite.MarkProgress(set, desired, s, at)
}
