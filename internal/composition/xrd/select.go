package xrd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
)

// SelectedBy is why a composition or a revision was selected.
type SelectedBy string

// Reasons of a selection.
const (
	// Enforced: the definition's enforcedCompositionRef names it.
	Enforced SelectedBy = "Enforced"
	// Referenced: the instance references it.
	Referenced SelectedBy = "Referenced"
	// Default: the definition's defaultCompositionRef names it.
	Default SelectedBy = "Default"
	// Matched: it matches the instance's selector, or the instance has no selector and it is
	// for the instance's kind.
	Matched SelectedBy = "Matched"
	// Latest: it is the newest revision that the instance's selector matches.
	Latest SelectedBy = "Latest"
	// Assigned: the rollout of the composition assigns it to the instance.
	Assigned SelectedBy = "Assigned"
)

// Problem is why nothing can be selected; "" if there is no problem.
type Problem string

// Problems of a selection.
const (
	// Missing: the referenced object doesn't exist.
	Missing Problem = "Missing"
	// Incompatible: the referenced object is for another kind.
	Incompatible Problem = "Incompatible"
	// NoMatch: no object matches.
	NoMatch Problem = "NoMatch"
	// NoRevision: the composition has no revision yet.
	NoRevision Problem = "NoRevision"
	// InvalidSelector: the selector is invalid.
	InvalidSelector Problem = "InvalidSelector"
)

// CompositionChoice is the result of the selection of a composition for an instance.
type CompositionChoice struct {
	// Name is the composition's name; it is set even if the composition doesn't exist.
	Name       string
	SelectedBy SelectedBy
	// NamedBy is the field that names the composition; "" if it was selected otherwise.
	NamedBy string

	// Composition is nil if there is a problem.
	Composition *v1.Composition

	// OtherMatches are the names of the other compositions that match. The first by name is
	// selected. An instance that references its composition has no OtherMatches.
	OtherMatches []string

	// Problem is why there is no composition; "" if there is one.
	Problem Problem

	// TypeRef is the kind of an incompatible composition; with NoMatch it is the kind that a composition is needed
	// for, and Labels are the labels that it needs.
	TypeRef v1.TypeReference
	Labels  map[string]string
}

// IsAmbiguous reports whether other compositions match as well.
func (c CompositionChoice) IsAmbiguous() bool { return len(c.OtherMatches) > 0 }

// String is a message about the choice.
func (c CompositionChoice) String() string {
	switch c.Problem {
	case Missing:
		return fmt.Sprintf("there is no composition %s, which %s names", c.Name, c.NamedBy)
	case Incompatible:
		return fmt.Sprintf("composition %s, which %s names, is for %s %s", c.Name, c.NamedBy, c.TypeRef.APIVersion, c.TypeRef.Kind)
	case NoMatch, NoRevision, InvalidSelector:
		text := fmt.Sprintf("there is no composition for %s %s (spec.compositeTypeRef)", c.TypeRef.APIVersion, c.TypeRef.Kind)
		if len(c.Labels) > 0 {
			text += " with the labels " + labels.FormatLabels(c.Labels)
		}
		return text
	}
	if c.IsAmbiguous() {
		return fmt.Sprintf("composition %s is the first by name of those that match; the others are %s", c.Name, strings.Join(c.OtherMatches, ", "))
	}
	return fmt.Sprintf("composition %s (%s)", c.Name, c.SelectedBy)
}

// SelectComposition selects the composition of an instance: the one that the definition enforces; or else the one
// that the instance references; or else, if the instance has no selector, the definition's default; or else the first
// match by name. The result doesn't depend on the order of the compositions.
func SelectComposition(compositions []*v1.Composition, i Instance, d *v1.CompositeResourceDefinition) CompositionChoice {
	match, selects := i.CompositionSelector()
	switch {
	case d.Spec.EnforcedCompositionRef != nil:
		return compositionByName(compositions, d, d.Spec.EnforcedCompositionRef.Name, Enforced, "spec.enforcedCompositionRef of the CompositeResourceDefinition")
	case i.CompositionName() != "":
		return compositionByName(compositions, d, i.CompositionName(), Referenced, string(i.layout.CompositionRef.Path()))
	case !selects && d.Spec.DefaultCompositionRef != nil:
		return compositionByName(compositions, d, d.Spec.DefaultCompositionRef.Name, Default, "spec.defaultCompositionRef of the CompositeResourceDefinition")
	}
	wanted := labels.SelectorFromValidatedSet(match)
	var matching []*v1.Composition
	for _, c := range compositions {
		if isForKind(c, d) && wanted.Matches(labels.Set(c.Labels)) {
			matching = append(matching, c)
		}
	}
	if len(matching) == 0 {
		return CompositionChoice{SelectedBy: Matched, Problem: NoMatch, TypeRef: v1.TypeReferenceTo(d.CompositeKind()), Labels: match}
	}
	slices.SortFunc(matching, func(a, b *v1.Composition) int { return cmp.Compare(a.Name, b.Name) })
	out := CompositionChoice{Name: matching[0].Name, SelectedBy: Matched, Composition: matching[0]}
	for _, c := range matching[1:] {
		out.OtherMatches = append(out.OtherMatches, c.Name)
	}
	return out
}

// compositionByName requires that the composition is for the kind.
func compositionByName(compositions []*v1.Composition, d *v1.CompositeResourceDefinition, name string, by SelectedBy, field string) CompositionChoice {
	out := CompositionChoice{Name: name, SelectedBy: by, NamedBy: field}
	at := slices.IndexFunc(compositions, func(c *v1.Composition) bool { return c.Name == name })
	switch {
	case at < 0:
		out.Problem = Missing
	case !isForKind(compositions[at], d):
		out.Problem, out.TypeRef = Incompatible, compositions[at].Spec.CompositeTypeRef
	default:
		out.Composition = compositions[at]
	}
	return out
}

// isForKind reports whether a composition is for the definition's composite kind in its referenceable version:
// compositions are written for that version's schema.
func isForKind(c *v1.Composition, d *v1.CompositeResourceDefinition) bool {
	return c.Spec.CompositeTypeRef == v1.TypeReferenceTo(d.CompositeKind())
}
