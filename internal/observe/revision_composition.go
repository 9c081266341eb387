package observe

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// Compositions are the objects of the composition dialect that the revision of a composite follows from.
type Compositions struct {
	Definitions, Compositions, Revisions []*unstructured.Unstructured
}

// Snapshot returns the definition of a kind of composites or claims, with all compositions and their revisions; false if there is none.
func (c Compositions) Snapshot(gk schema.GroupKind) (s xrd.Snapshot, isClaim, found bool) {
	for _, o := range c.Definitions {
		d := &v1.CompositeResourceDefinition{}
		if !decode(o, d) {
			continue
		}
		claim, offered := d.ClaimKind()
		if isClaim = offered && claim.GroupKind() == gk; isClaim || d.CompositeKind().GroupKind() == gk {
			s.Definition, found = d, true
			break
		}
	}
	for _, o := range c.Compositions {
		if one := (&v1.Composition{}); decode(o, one) {
			s.Compositions = append(s.Compositions, one)
		}
	}
	for _, o := range c.Revisions {
		if one := (&v1.CompositionRevision{}); decode(o, one) {
			s.Revisions = append(s.Revisions, one)
		}
	}
	return s, isClaim, found
}

// compositionRevision is what the revision of a composite follows from.
type compositionRevision struct {
	xrd.Snapshot
	composite xrd.Instance
	// claim is the composite's claim; nil if it has none, or if it is not known.
	claim *unstructured.Unstructured
	// selects is the object that selects: the claim, which sets these fields on its composite, or the composite.
	selects report.Object
	layout  xrd.Layout
	Revision
}

// ExplainCompositionRevision says which revision of which composition composes a composite, and why. The claim is nil if the composite has
// none, or if it has not been read.
func ExplainCompositionRevision(composite, claim *unstructured.Unstructured, s xrd.Snapshot) *Revision {
	layout := xrd.LayoutOf(s.Definition.ScopeOrDefault())
	r := compositionRevision{Snapshot: s, claim: claim, composite: xrd.NewInstance(composite, layout), selects: report.ObjectOf(composite), layout: layout}
	if claim, claimed := r.composite.ClaimRef(); claimed {
		r.selects, r.layout = report.Object{APIVersion: claim.APIVersion, Kind: claim.Kind, Namespace: claim.Namespace, Name: claim.Name}, xrd.ClaimLayout()
	}
	choice := xrd.SelectComposition(s.Compositions, r.composite, s.Definition)
	r.Of = report.Object{APIVersion: v1.GroupVersion.String(), Kind: v1.CompositionKind, Name: choice.Name}
	if choice.Problem != "" {
		r.Reason = revisionMissing
		r.because(choice.String())
		r.moves("create or label a composition for the kind, or select another one: " + r.edit())
		return &r.Revision
	}
	r.explainComposition(choice)
	r.explainRevision(choice.Composition, xrd.SelectRevision(s.Revisions, choice.Composition, r.composite, s.Definition))
	r.addSuspension(composite)
	return &r.Revision
}

func (r *compositionRevision) edit() string { return "kubectl edit " + arguments(r.selects) }

func (r *compositionRevision) definition() report.Object {
	return report.Object{APIVersion: v1.GroupVersion.String(), Kind: v1.DefinitionKind, Name: r.Definition.Name}
}

// explainComposition says why it is that composition.
func (r *compositionRevision) explainComposition(c xrd.CompositionChoice) {
	ref := string(r.layout.CompositionRef.Path())
	switch c.SelectedBy {
	case xrd.Enforced:
		r.because(fmt.Sprintf("composition %s: spec.enforcedCompositionRef of %s enforces it", c.Name, r.definition()))
	case xrd.Default:
		r.because(fmt.Sprintf("composition %s: it is the default (spec.defaultCompositionRef) of %s", c.Name, r.definition()))
	case xrd.Matched:
		match, selects := r.composite.CompositionSelector()
		text := "composition " + c.Name + ": it is for the kind"
		if selects {
			text += " and has the labels " + labels.FormatLabels(match)
		}
		if c.IsAmbiguous() {
			text += "; it is the first by name, and " + strings.Join(c.OtherMatches, ", ") + " would match too"
		}
		r.because(text)
	default:
		r.because(fmt.Sprintf("composition %s: %s of %s names it%s", c.Name, ref, r.selects, r.writersOf(r.layout.CompositionRef)))
		byDefault := r.Definition.Spec.DefaultCompositionRef
		switch match, selects := r.composite.CompositionSelector(); {
		case selects:
			r.because(fmt.Sprintf("the selector %s applies only while the reference is not set", labels.FormatLabels(match)))
		case byDefault != nil && byDefault.Name == c.Name:
			r.because(fmt.Sprintf("it is the default (spec.defaultCompositionRef) of %s", r.definition()))
		case byDefault != nil:
			r.because(fmt.Sprintf("the default %s (spec.defaultCompositionRef of %s) applies only while the reference is not set", byDefault.Name, r.definition()))
		}
	}
	if others := r.others(c.Name); len(others) > 0 && c.SelectedBy != xrd.Enforced {
		r.moves(fmt.Sprintf("to use another composition (%s), set %s: %s", strings.Join(others, ", "), ref, r.edit()))
	}
}

// maxOthers bounds how many other compositions are named.
const maxOthers = 3

// others are the names of the first other compositions for the kind.
func (r *compositionRevision) others(than string) (names []string) {
	for _, c := range r.Compositions {
		if c.Name != than && c.Spec.CompositeTypeRef == v1.TypeReferenceTo(r.Definition.CompositeKind()) {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxOthers)]
}

// writersOf says which managers wrote a field of the object that selects.
func (r *compositionRevision) writersOf(field xrd.FieldPath) string {
	written := r.composite.Object()
	if _, claimed := r.composite.ClaimRef(); claimed {
		written = r.claim
	}
	if written == nil {
		return ""
	}
	path := make([]any, len(field))
	for i, name := range field {
		path[i] = name
	}
	var names []string
	for _, m := range managersAt(written, path) {
		name := m.Name
		if name == v1alpha1.InstanceManager {
			name = "the controllers, which chose it once"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ", as set by " + strings.Join(names, " and ")
}

// explainRevision says why it is that revision.
func (r *compositionRevision) explainRevision(composition *v1.Composition, c xrd.RevisionChoice) {
	if r.Name = c.Name; c.Problem != "" {
		r.Reason = revisionMissing
		r.because(c.String())
		if newest := r.newest(r.Of.Name); newest != nil && c.SelectedBy == xrd.Referenced {
			r.moves("to the newest revision: " + r.patch(r.layout.CompositionRevisionRef, fmt.Sprintf(`{"name":%q}`, newest.Name)))
		}
		r.moves("change what selects the revision: " + r.edit())
		return
	}
	newest := r.newest(r.Of.Name)
	if newest == nil {
		newest = c.Revision // of another composition than the one that is selected now
	}
	r.Number, r.Reason = c.Revision.Spec.Revision, string(c.SelectedBy)
	policy := string(r.layout.CompositionUpdatePolicy.Path())
	if c.SelectedBy == xrd.Referenced {
		r.because(fmt.Sprintf("%s: Manual keeps the instance at the revision that %s names", policy, r.layout.CompositionRevisionRef.Path()))
		if newest.Name != c.Name {
			r.because(fmt.Sprintf("the newest revision is %d (%s)", newest.Spec.Revision, newest.Name))
			r.moves("to the newest revision: "+r.patch(r.layout.CompositionRevisionRef, fmt.Sprintf(`{"name":%q}`, newest.Name)),
				"to follow the newest one always: "+r.patch(r.layout.CompositionUpdatePolicy, `"Automatic"`))
		} else {
			r.because("it is the newest one")
		}
		return
	}
	if c.SelectedBy == xrd.Assigned {
		r.explainRollout(composition, newest)
		return
	}
	match, selects := r.composite.RevisionSelector()
	latest := "it is the newest revision"
	if c.Invalid != nil {
		latest = "it is the newest valid revision"
	}
	switch d := r.Definition.Spec.DefaultCompositionRevisionSelector; {
	case selects:
		r.because(fmt.Sprintf("%s with the labels %s (%s)", latest, labels.FormatLabels(match), r.layout.CompositionRevisionSelector.Path()))
	case d != nil:
		r.because(fmt.Sprintf("%s that matches %s (spec.defaultCompositionRevisionSelector of %s)", latest, metav1.FormatLabelSelector(d), r.definition()))
	default:
		r.because(latest + ", which " + policy + ": Automatic follows")
	}
	switch {
	case c.Invalid != nil:
		invalid, _ := condition.Set(c.Invalid.Status.Conditions).Get(v1.TypeValidPipeline)
		r.because(fmt.Sprintf("revision %d (%s) is newer, but its pipeline is invalid: %s", c.Invalid.Spec.Revision, c.Invalid.Name, invalid.Message))
		r.moves("correct the composition: kubectl edit composition " + r.Of.Name)
	case newest.Name != c.Name:
		r.because(fmt.Sprintf("the newest of all is %d (%s), which does not match", newest.Spec.Revision, newest.Name))
	}
	if used := r.composite.RevisionName(); used != "" && used != c.Name {
		r.because(fmt.Sprintf("the composite still refers to %s, which it was composed with last", used))
	}
	r.moves("a change of the composition makes the next revision, which composes the instance at once if it is selected",
		"to stay at this one: "+r.patch(r.layout.CompositionUpdatePolicy, `"Manual"`))
}

// explainRollout says why the rollout of the composition assigns the revision.
func (r *compositionRevision) explainRollout(composition *v1.Composition, newest *v1.CompositionRevision) {
	rollout, _ := xrd.RolloutOf(composition, r.Revisions)
	rollback := "espalier rollback composition/" + composition.Name
	if rollout.Target.Reason == revision.RolledBack {
		r.because(fmt.Sprintf("%s of composition %s rolls back to it", rollout.Target.Source, composition.Name))
		r.moves("to end the rollback: " + rollback + " --end")
	} else {
		r.because(fmt.Sprintf("the rollout of composition %s (annotation %s) assigns it", composition.Name, v1alpha1.RolloutAnnotation))
		r.moves("to compose all instances by an earlier revision: " + rollback + " --to NUMBER")
	}
	if text := rollout.String(); text != "" {
		r.because(text)
	}
	if newest.Name != r.Name {
		r.because(fmt.Sprintf("the newest revision is %d (%s)", newest.Spec.Revision, newest.Name))
	}
	r.moves("to stay at this one: " + r.patch(r.layout.CompositionUpdatePolicy, `"Manual"`))
}

// newest is the newest revision of a composition, whatever the instance selects.
func (r *compositionRevision) newest(composition string) (out *v1.CompositionRevision) {
	all := xrd.NewInstance(&unstructured.Unstructured{Object: map[string]any{}}, r.composite.Layout())
	d := r.Definition.DeepCopy()
	d.Spec.DefaultCompositionRevisionSelector = nil
	return xrd.SelectRevision(r.Revisions, &v1.Composition{ObjectMeta: metav1.ObjectMeta{Name: composition}}, all, d).Revision
}

// patch is the command that sets a field of the object that selects.
func (r *compositionRevision) patch(field xrd.FieldPath, value string) string {
	for i := len(field) - 1; i >= 0; i-- {
		value = fmt.Sprintf(`{%q:%s}`, field[i], value)
	}
	return "kubectl patch " + arguments(r.selects) + " --type merge -p " + diag.ShellWord(value)
}
