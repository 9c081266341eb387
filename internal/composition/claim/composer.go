// Package claim composes claims: the children of a claim are its composite and, if the
// claim requests it, a Secret with a copy of the composite's connection details.
// See docs/design/0013-composites-and-functions.md.
package claim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/condition"
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
	// Definition is the definition that offers the claims.
	Definition *v1.CompositeResourceDefinition
	// Keys prove which Secret belongs to a composite.
	Keys inventory.Keys
}

// ChildKinds are the composite kind and Secrets.
func (c *Composer) ChildKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{c.Definition.CompositeKind(), secretKind}
}

// Depth is 2: the Secret comes after the composite.
func (c *Composer) Depth() int { return 2 }

// StatusFields are the fields that the author's schema does not declare.
func (c *Composer) StatusFields() report.FieldSet { return xrd.UndeclaredStatusFields(c.Definition) }

// Defaults are what the definition's annotation says about the annotations of claims. The dialect
// has no deletion timeouts.
func (c *Composer) Defaults() inventory.Defaults { return xrd.DeletionDefaults(c.Definition) }

// SchemaUnknown is false for all kinds.
func (c *Composer) SchemaUnknown(schema.GroupVersionKind) bool { return false }

// Compose desires the composite and the connection Secret, and computes the claim's status
// from the composite's.
func (c *Composer) Compose(_ context.Context, facts plan.Facts) (plan.Desired, error) {
	claim := xrd.NewInstance(facts.Instance, xrd.ClaimLayout())
	kind := c.Definition.CompositeKind()
	name, bound := compositeName(claim, facts.Owned[compositeNode])
	observed := facts.Object(compositeNode, kind, "", name)
	composite := xrd.NewInstance(&unstructured.Unstructured{Object: map[string]any{}}, xrd.LayoutOf(v1.LegacyClusterScope))
	if observed != nil {
		composite = xrd.NewInstance(observed, composite.Layout())
	}
	node := plan.Node{
		ID: compositeNode, Kind: kind, AdoptUnowned: bound && c.compositesAreClaimable(), AdoptClaimable: bound,
		Object: c.compositeObject(claim, composite, name), Observed: observed,
	}
	if observed != nil {
		node.Ready, node.Unready = readiness(observed)
	}
	desired := plan.Desired{Nodes: []plan.Node{node}, Status: map[string]any{}}
	switch unreadable, unread := facts.UnreadableKind(kind); {
	case observed != nil:
		desired.Status = xrd.StatusForClaim(composite, c.Definition)
		desired.Conditions = claimConditions(composite)
	case unread: // keep the last known status
		desired.Status, desired.Problem = xrd.StatusForClaim(claim, c.Definition), unreadable.Problem
	}
	if from, published := publishedTo(claim, composite); published {
		desired.Needs = []plan.Need{from}
	}
	if secret, wanted := c.secretNode(claim, composite, facts); wanted {
		desired.Nodes = append(desired.Nodes, secret)
	}
	if composite.LastPublished() != "" {
		claim.Layout().LastPublishedTime.SetInStatus(desired.Status, composite.LastPublished())
	}
	desired.Fields = c.claimFields(claim, composite, name)
	return desired, nil
}

// compositesAreClaimable reports whether the definition's author allows claims to take over any composite that no
// claim refers to. Otherwise its existence gives the author of a claim no right to it: composites are cluster-scoped,
// and claims are not.
func (c *Composer) compositesAreClaimable() bool {
	return c.Definition.Annotations[v1alpha1.ClaimableAnnotation] == v1alpha1.ClaimableTrue
}

// compositeName is the name of the claim's composite: of the composite that the claim owns,
// even if the claim's reference was changed; or else of the one that the claim references;
// or else a name generated from the claim's name and UID, which is the same after a crash.
func compositeName(claim xrd.Instance, owned []*unstructured.Unstructured) (name string, bound bool) {
	ref, bound := claim.CompositeRef()
	isReferred := func(o *unstructured.Unstructured) bool { return bound && o.GetName() == ref.Name }
	switch {
	case len(owned) > 0 && !slices.ContainsFunc(owned, isReferred):
		return slices.MinFunc(owned, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) }).GetName(), true
	case bound:
		return ref.Name, true
	}
	o := claim.Object()
	return strings.TrimRight(o.GetName()[:min(len(o.GetName()), maxNameLength-suffixLength-1)],
		"-.") + "-" + object.Digest(string(o.GetUID()))[:suffixLength], false
}

// The suffix is long enough for claims of one name in ten thousand namespaces: there is no
// fallback for a name that is taken.
const (
	suffixLength  = 12
	maxNameLength = 63
)

func (c *Composer) compositeObject(claim, composite xrd.Instance, name string) *unstructured.Unstructured {
	if selector, applies := xrd.DefaultRevisionSelector(claim, c.Definition); applies { // claimFields writes it to the claim
		claim = xrd.NewInstance(claim.Object().DeepCopy(), claim.Layout())
		claim.SetRevisionSelector(selector)
	}
	spec := xrd.SpecFromClaim(claim, composite)
	if c.Definition.Spec.EnforcedCompositionRef != nil {
		delete(spec, "compositionSelector") // the composite uses the enforced composition
		leaveToComposite(spec, composite, "compositionRef")
	}
	if xrd.EffectiveUpdatePolicy(claim, composite) == v1.UpdateAutomatic {
		leaveToComposite(spec, composite, "compositionRevisionRef")
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(c.Definition.CompositeKind())
	o.SetName(name)
	labels := propagated(claim.Object().GetLabels())
	labels[v1.CompositeLabel] = object.LabelValue(name)
	o.SetLabels(labels)
	annotations := propagated(claim.Object().GetAnnotations())
	if external := composite.Object().GetAnnotations()[externalNameAnnotation]; external != "" {
		annotations[externalNameAnnotation] = external // the composite's goes before the claim's
	}
	if len(annotations) > 0 {
		o.SetAnnotations(annotations)
	}
	return o
}

// leaveToComposite removes a field from the desired spec, so the composite's own controller sets it. If only the
// claim's controller manages the field, the current value stays: removing it by server-side apply would leave a null.
func leaveToComposite(spec map[string]any, composite xrd.Instance, field string) {
	delete(spec, field)
	value, found, _ := unstructured.NestedMap(composite.Object().Object, "spec", field)
	applied := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{field: value}}}
	if found && len(plan.LostFields(applied, composite.Object(), v1alpha1.ChildManager)) == 0 {
		spec[field] = value
	}
}

const externalNameAnnotation = "crossplane.io/external-name"

// propagated are the labels or annotations that are propagated from a claim to its composite: all except Kubernetes'
// own and those that control the claim itself.
func propagated(all map[string]string) map[string]string {
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

func readiness(o *unstructured.Unstructured) (bool, plan.Problem) {
	h := health.Instance(o)
	if h.Ready && o.GetDeletionTimestamp() == nil {
		return true, plan.Problem{}
	}
	message := h.Message
	if complaint := health.SyncProblem(o); complaint != "" {
		message = complaint
	}
	return false, plan.Problem{Reason: plan.NotReady, Message: message}
}

func claimConditions(composite xrd.Instance) []v1alpha1.Condition {
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

// claimFields lists the changes of the claim's spec and metadata: the reference to the composite, and the composite's
// composition, revision and external name.
func (c *Composer) claimFields(claim, composite xrd.Instance, name string) []inventory.Field {
	next := xrd.NewInstance(claim.Object().DeepCopy(), claim.Layout())
	apiVersion, kind := c.Definition.CompositeKind().ToAPIVersionAndKind()
	next.SetCompositeRef(xrd.ObjectRef{APIVersion: apiVersion, Kind: kind, Name: name})
	if chosen := composite.CompositionName(); chosen != "" && (claim.CompositionName() == "" || c.Definition.Spec.EnforcedCompositionRef != nil) {
		next.SetCompositionName(chosen)
	}
	if composite.RevisionName() != "" && (xrd.EffectiveUpdatePolicy(claim, composite) == v1.UpdateAutomatic || claim.RevisionName() == "") {
		next.SetRevisionName(composite.RevisionName())
	}
	if selector, applies := xrd.DefaultRevisionSelector(claim, c.Definition); applies {
		next.SetRevisionSelector(selector)
	}
	fields := next.ChangedFields(claim)
	if external := composite.Object().GetAnnotations()[externalNameAnnotation]; external != "" &&
		external != claim.Object().GetAnnotations()[externalNameAnnotation] {
		fields = append(fields, inventory.Field{Path: []string{"metadata", "annotations", externalNameAnnotation}, Value: external})
	}
	return fields
}

// secretNode is the Secret with the composite's connection details in the claim's
// namespace, if the claim requests it and the composite has published details. If the
// composite's Secret is gone, for example while it is recreated, the data stays.
func (c *Composer) secretNode(claim, composite xrd.Instance, facts plan.Facts) (plan.Node, bool) {
	ref, wanted := claim.ConnectionSecretRef()
	if !wanted {
		return plan.Node{}, false
	}
	from, _ := publishedTo(claim, composite)
	source := facts.External[from].Object
	namespace := claim.Object().GetNamespace()
	observed := facts.Object(secretNode, secretKind, namespace, ref.Name)
	node := plan.Node{ID: secretNode, Kind: secretKind, Layer: 1, DependsOn: []string{compositeNode}, Observed: observed, Ready: observed != nil, Sensitive: true}
	o := &unstructured.Unstructured{Object: map[string]any{"type": "connection.crossplane.io/v1alpha1"}}
	o.SetGroupVersionKind(secretKind)
	o.SetNamespace(namespace)
	o.SetName(ref.Name)
	node.Object = o
	switch {
	case source != nil && isConnectionSecretOf(source, composite, c.Keys):
		data, _, _ := unstructured.NestedMap(source.Object, "data")
		o.Object["data"] = maps.Clone(data)
	case source != nil:
		node.Refusal = plan.Problem{Reason: plan.NotOwned, Message: fmt.Sprintf("Secret %s/%s isn't owned by the composite and is not copied",
			from.Namespace, from.Name)}
	case observed == nil:
		return plan.Node{}, false // no connection details yet
	default:
		o.Object["data"] = observed.Object["data"] // keep the last data until there is new data
	}
	return node, true
}

// publishedTo is the Secret of the composite, if the claim requests the connection details and the composite names one.
func publishedTo(claim, composite xrd.Instance) (plan.Need, bool) {
	_, wanted := claim.ConnectionSecretRef()
	from, published := composite.ConnectionSecretRef()
	if !wanted || !published {
		return plan.Need{}, false
	}
	return plan.Need{Kind: secretKind, Namespace: from.Namespace, Name: from.Name}, true
}

// isConnectionSecretOf reports whether a Secret is owned by a composite. Without this check, a claim could read any
// Secret through a composite that names it.
func isConnectionSecretOf(secret *unstructured.Unstructured, composite xrd.Instance, keys inventory.Keys) bool {
	owner := inventory.OwnerOf(composite.Object(), object.Definition{Dialect: object.CompositeDialect}, "")
	return owner.Recognizing(keys, composite.Object(), time.Time{}).Owns(secret)
}
