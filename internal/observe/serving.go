package observe

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	xp "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// IsUnreconciled reports whether an object's status is not of its current generation, or shows nothing of a deletion that its
// finalizer waits for: of an instance, its definition may say why.
func IsUnreconciled(o *unstructured.Unstructured) bool {
	if o.GetDeletionTimestamp() != nil {
		return slices.ContainsFunc(o.GetFinalizers(), inventory.IsFinalizer) && report.ReadDeletion(o) == nil
	}
	observed := health.Observed(o)
	for _, c := range condition.Read(o) {
		observed = max(observed, c.ObservedGeneration)
	}
	return observed < o.GetGeneration()
}

// servingConditions are the conditions without which a definition or composition is not served, the cause before what follows from it.
var servingConditions = []string{
	v1alpha1.DefinitionRevisionsResolved, v1alpha1.DefinitionGraphAccepted, xp.TypeEstablished, xp.TypeOffered,
	v1alpha1.DefinitionKindReady, v1alpha1.DefinitionControllerReady, xp.TypeValidPipeline,
}

// ServingProblem returns the condition that says why a definition, or a revision of a composition, is not served as it is; false if
// none does.
func ServingProblem(o *unstructured.Unstructured) (c v1alpha1.Condition, found bool) {
	all := condition.Read(o)
	for _, kind := range servingConditions {
		if c, ok := all.Get(kind); ok && c.Status == condition.False {
			c.Message = strings.TrimPrefix(c.Message, invalidPrefix)
			return c, true
		}
	}
	return v1alpha1.Condition{}, false
}

// Defines reports whether a definition is of a kind, as a user writes it: a kind, plural, singular or short name, which may end in its
// group.
func Defines(definition *unstructured.Unstructured, written string) bool {
	written, group, _ := strings.Cut(strings.ToLower(written), ".")
	spec, _, _ := unstructured.NestedMap(definition.Object, "spec")
	if schema, _, _ := unstructured.NestedMap(spec, "schema"); schema != nil { // a graph's
		schema["singular"], spec = schema["kind"], map[string]any{"group": schema["group"], "names": schema}
	}
	if of, _ := spec["group"].(string); group != "" && group != cmp.Or(of, v1alpha1.GroupVersion.Group) {
		return false
	}
	for _, field := range []string{"names", "claimNames"} {
		names, _, _ := unstructured.NestedMap(spec, field)
		for _, key := range []string{"kind", "plural", "singular"} {
			if name, _ := names[key].(string); name != "" && (strings.EqualFold(name, written) || key == "kind" && strings.EqualFold(name+"s", written)) {
				return true
			}
		}
		short, _ := names["shortNames"].([]any)
		if slices.ContainsFunc(short, func(name any) bool { return name == written }) {
			return true
		}
	}
	return false
}

// addServing adds to a node why it is not reconciled, if its definition says so, or why a composition cannot be used.
func (w ClusterState) addServing(n *Node, o *unstructured.Unstructured) {
	by := w.ServedBy[object.KeyOf(o)]
	if by == nil {
		return
	}
	d := describe(by, false)
	switch problem, found := ServingProblem(by); {
	case by.GetUID() == "":
		d.Exists, d.Ready, d.Reason, d.Message = true, False, reasonDefinitionMissing, "it does not exist"
	case d.Deleted != nil:
		d.Message = "is being deleted"
	case found:
		d.Ready, d.Reason, d.Message = False, problem.Reason, problem.Message
	case d.Ready == True, d.Ready == NotReported && by.GetKind() == xp.CompositionRevisionKind:
		if n.Ready == NotReported {
			n.Ready = d.Ready // a composition
		}
		return
	case d.Ready == NotReported:
		d.Ready, d.Message = Unknown, health.NotReconciled
	}
	if n.Ready == NotReported {
		n.Ready = False
	}
	d.definition = sourceOfRevision(by)
	n.servedBy = &d
}

// reasonDefinitionMissing is the reason of a definition that is gone.
const reasonDefinitionMissing = "DefinitionMissing"

// sourceOfRevision returns the composition of a revision, which an author edits; empty for other objects.
func sourceOfRevision(o *unstructured.Unstructured) report.Object {
	name := o.GetLabels()[xp.CompositionNameLabel]
	if o.GetKind() != xp.CompositionRevisionKind || name == "" {
		return report.Object{}
	}
	return report.Object{APIVersion: xp.GroupVersion.String(), Kind: xp.CompositionKind, Name: name}
}

// IsServing reports whether a node is a definition, or a revision of a composition.
func (n Node) IsServing() bool {
	switch n.object().Key().GroupKind() {
	case v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGraphDefinitionKind).GroupKind(), v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGroupKind).GroupKind(),
		xp.GroupVersion.WithKind(xp.DefinitionKind).GroupKind(), xp.GroupVersion.WithKind(xp.CompositionRevisionKind).GroupKind():
		return true
	}
	return false
}

// servingAdvice lists what can be done about a definition or a revision of a composition that is not served; none if its reason does
// not tell.
func (n Node) servingAdvice() []string {
	edited := n.object()
	if n.definition.Name != "" {
		edited = n.definition
	}
	edit := "kubectl edit " + arguments(edited)
	switch {
	case !n.IsServing():
	case n.Reason == reasonDefinitionMissing:
		return []string{"apply the definition again; it takes its instances up as they are"}
	case n.Reason == string(report.Deleting):
		return []string{"see what it waits for: " + espalierCommand("blockers", n.object())}
	case n.Reason == kindRefused, strings.Contains(n.Message, v1alpha1.DefinitionKindReady+": "+kindRefused+": "):
		return []string{"correct the definition; the API server refuses its kind: " + edit}
	case n.Reason == kindNotOwned:
		return []string{"give the definition another kind, or remove the CustomResourceDefinition that has it: " + edit}
	case n.Reason == xp.ReasonMissingCapabilities:
		return []string{"serve the functions that are missing, as packages or with --function", "if the composition names a wrong function: " + edit}
	}
	return nil
}

// Reasons of package serving for a kind that is not ready.
const (
	kindRefused  = "Failed"
	kindNotOwned = "KindNotOwned"
)
