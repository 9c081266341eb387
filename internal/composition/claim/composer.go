// Package claim keeps claims: a claim is a graph of one node, the composite that it
// stands for, and, if it asks for one, a Secret with that one's connection details.
package claim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// The nodes of a claim.
const (
	compositeNode = "composite"
	secretNode    = "connection"
)

var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")

// Composer composes the claims of a kind. It is immutable.
type Composer struct {
	// Definition offers the claims.
	Definition *v1.CompositeResourceDefinition
}

// Written are composites, and Secrets.
func (c *Composer) Written() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{c.Definition.CompositeKind(), secretKind}
}

// Depth has the Secret after the composite.
func (c *Composer) Depth() int { return 2 }

// Room is what the author's status leaves.
func (c *Composer) Room() report.Room { return xrd.Room(c.Definition) }

// Defaults has nothing: the dialect knows no limits of deletion.
func (c *Composer) Defaults() inventory.Defaults { return inventory.Defaults{} }

// Untyped is no kind.
func (c *Composer) Untyped(schema.GroupVersionKind) bool { return false }

// Compose wants the composite to be what the claim says, and the claim to show what
// became of it.
func (c *Composer) Compose(_ context.Context, facts plan.Facts, world instance.ClusterState) (plan.Desired, error) {
	claim := xrd.At(facts.Instance, xrd.ClaimPlaces())
	kind := c.Definition.CompositeKind()
	name, bound := nameOf(claim, facts.Owned[compositeNode])
	observed := facts.Object(compositeNode, kind, "", name)
	composite := xrd.At(&unstructured.Unstructured{Object: map[string]any{}}, xrd.PlacesOf(v1.LegacyClusterScope))
	if observed != nil {
		composite = xrd.At(observed, composite.Places())
	}
	node := plan.Node{
		ID: compositeNode, Kind: kind, AdoptUnowned: bound,
		Object: c.object(claim, composite, name), Observed: observed,
	}
	if observed != nil {
		node.Ready, node.Unready = readiness(observed)
	}
	desired := plan.Desired{Nodes: []plan.Node{node}, Status: map[string]any{}}
	switch blind, unread := facts.UnreadableKind(kind); {
	case observed != nil:
		desired.Status = xrd.StatusForClaim(composite, c.Definition)
		desired.Conditions = shown(composite)
	case unread: // it is as it was, as far as anybody knows
		desired.Status, desired.Problem = xrd.StatusForClaim(claim, c.Definition), blind.Problem
	}
	if secret, wanted := c.secret(claim, composite, facts, world); wanted {
		desired.Nodes = append(desired.Nodes, secret)
	}
	if composite.LastPublished() != "" {
		claim.Places().LastPublishedTime.Put(desired.Status, composite.LastPublished())
	}
	desired.Fields = c.fields(claim, composite, name)
	return desired, nil
}

// nameOf is the name of the claim's composite: of the one that it has, whatever somebody
// has made of the reference to it; or else the one that the claim names; or one that
// follows from what it is, so that it is the same after a crash.
func nameOf(claim xrd.Instance, has []*unstructured.Unstructured) (name string, bound bool) {
	ref, bound := claim.Composite()
	isReferred := func(o *unstructured.Unstructured) bool { return bound && o.GetName() == ref.Name }
	switch {
	case len(has) > 0 && !slices.ContainsFunc(has, isReferred):
		return slices.MinFunc(has, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) }).GetName(), true
	case bound:
		return ref.Name, true
	}
	o := claim.Object()
	return strings.TrimRight(o.GetName()[:min(len(o.GetName()), longestName-suffixLength-1)], "-.") + "-" + object.Digest(string(o.GetUID()))[:suffixLength], false
}

// The suffix tells apart the composites of claims of one name in ten thousand namespaces:
// whoever finds the name taken has no other.
const (
	suffixLength = 12
	longestName  = 63
)

// object is the composite as the claim wants it.
func (c *Composer) object(claim, composite xrd.Instance, name string) *unstructured.Unstructured {
	if selector, applies := xrd.DefaultRevisionSelector(claim, c.Definition); applies { // the claim is about to say so
		claim = xrd.At(claim.Object().DeepCopy(), claim.Places())
		claim.SetRevisionSelector(selector)
	}
	spec := xrd.SpecFromClaim(claim, composite)
	if c.Definition.Spec.EnforcedCompositionRef != nil {
		delete(spec, "compositionSelector") // the composite has what is enforced, whatever the claim asks for
		leave(spec, composite, "compositionRef")
	}
	if xrd.Policy(claim, composite) == v1.UpdateAutomatic {
		leave(spec, composite, "compositionRevisionRef")
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(c.Definition.CompositeKind())
	o.SetName(name)
	labels := passedOn(claim.Object().GetLabels())
	labels[v1.CompositeLabel] = object.LabelValue(name)
	o.SetLabels(labels)
	annotations := passedOn(claim.Object().GetAnnotations())
	if external := composite.Object().GetAnnotations()[externalName]; external != "" {
		annotations[externalName] = external // the composite's, once it has one
	}
	if len(annotations) > 0 {
		o.SetAnnotations(annotations)
	}
	return o
}

// leave leaves a field to the composite's own say. One that the claim has had set stays as
// it is until the composite sets it: taking it away would leave a null, for both have had a
// hand in it.
func leave(spec map[string]any, composite xrd.Instance, field string) {
	delete(spec, field)
	is, has, _ := unstructured.NestedMap(composite.Object().Object, "spec", field)
	ours := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{field: is}}}
	if has && len(plan.Lost(ours, composite.Object(), v1alpha1.ChildManager)) == 0 {
		spec[field] = is
	}
}

const externalName = "crossplane.io/external-name"

// passedOn are the labels or annotations of a claim that its composite gets: all but
// what is Kubernetes' own and what says how the claim itself is kept.
func passedOn(all map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range all {
		domain, _, _ := strings.Cut(key, "/")
		reserved := slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "kro.run", "espalier.dev"}, func(d string) bool {
			return domain == d || strings.HasSuffix(domain, "."+d)
		})
		switch key {
		case v1.CompositeLabel, v1.ClaimNameLabel, v1.ClaimNamespaceLabel, v1.CompositionResourceNameAnnotation, v1.PausedAnnotation:
			reserved = true
		}
		if !reserved {
			out[key] = value
		}
	}
	return out
}

// readiness is the composite's own word, of its present generation.
func readiness(o *unstructured.Unstructured) (bool, plan.Problem) {
	h := health.Instance(o)
	if h.Ready && o.GetDeletionTimestamp() == nil {
		return true, plan.Problem{}
	}
	message := h.Message
	if complaint := health.Complaint(o); complaint != "" {
		message = complaint
	}
	return false, plan.Problem{Reason: plan.NotReady, Message: message}
}

// shown are those of the composite's conditions that its claim shows as well.
func shown(composite xrd.Instance) []v1alpha1.Condition {
	types := composite.ClaimConditionTypes()
	var out condition.Set
	for _, c := range composite.Conditions() {
		if slices.Contains(types, c.Type) && c.Type != v1.TypeReady && c.Type != v1.TypeSynced {
			c.LastTransitionTime = nil
			out = append(out, c)
		}
	}
	return out
}

// fields are what the claim says of its composite, and what the composite has found out
// for it.
func (c *Composer) fields(claim, composite xrd.Instance, name string) []inventory.Field {
	next := xrd.At(claim.Object().DeepCopy(), claim.Places())
	apiVersion, kind := c.Definition.CompositeKind().ToAPIVersionAndKind()
	next.SetComposite(xrd.ObjectRef{APIVersion: apiVersion, Kind: kind, Name: name})
	if chosen := composite.Composition(); chosen != "" && (claim.Composition() == "" || c.Definition.Spec.EnforcedCompositionRef != nil) {
		next.SetComposition(chosen)
	}
	if composite.Revision() != "" && (xrd.Policy(claim, composite) == v1.UpdateAutomatic || claim.Revision() == "") {
		next.SetRevision(composite.Revision())
	}
	if selector, applies := xrd.DefaultRevisionSelector(claim, c.Definition); applies {
		next.SetRevisionSelector(selector)
	}
	fields := next.Fields(claim)
	if external := composite.Object().GetAnnotations()[externalName]; external != "" && external != claim.Object().GetAnnotations()[externalName] {
		fields = append(fields, inventory.Field{Path: []string{"metadata", "annotations", externalName}, Value: external})
	}
	return fields
}

// secret wants the connection details of the composite in a Secret beside the claim, if
// the claim asks for that and the composite has some, or had: it may be made anew.
func (c *Composer) secret(claim, composite xrd.Instance, facts plan.Facts, world instance.ClusterState) (plan.Node, bool) {
	ref, wanted := claim.ConnectionSecret()
	if !wanted {
		return plan.Node{}, false
	}
	var source *unstructured.Unstructured
	from, published := composite.ConnectionSecret()
	if published {
		source = world.Object(plan.Need{Kind: secretKind, Namespace: from.Namespace, Name: from.Name}).Object
	}
	namespace := claim.Object().GetNamespace()
	observed := facts.Object(secretNode, secretKind, namespace, ref.Name)
	node := plan.Node{ID: secretNode, Kind: secretKind, Layer: 1, DependsOn: []string{compositeNode}, Observed: observed, Ready: observed != nil, Conceals: true}
	o := &unstructured.Unstructured{Object: map[string]any{"type": "connection.crossplane.io/v1alpha1"}}
	o.SetGroupVersionKind(secretKind)
	o.SetNamespace(namespace)
	o.SetName(ref.Name)
	node.Object = o
	switch {
	case source != nil && isOf(source, composite):
		data, _, _ := unstructured.NestedMap(source.Object, "data")
		o.Object["data"] = maps.Clone(data)
	case source != nil:
		node.Refused = plan.Problem{Reason: plan.NotOwned, Message: fmt.Sprintf("Secret %s/%s isn't the composite's, and isn't copied", from.Namespace, from.Name)}
	case observed == nil:
		return plan.Node{}, false // there is nothing to tell yet
	default:
		o.Object["data"] = observed.Object["data"] // as it was, until there is something again
	}
	return node, true
}

// isOf says whether a Secret is a composite's own: nobody gets another's by naming it.
func isOf(secret *unstructured.Unstructured, composite xrd.Instance) bool {
	return inventory.OwnerOf(composite.Object(), object.Definition{Dialect: object.CompositeDialect}, "").Owns(secret)
}
