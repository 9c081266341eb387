package xrd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
)

// Why says what a composition, or its revision, was chosen for.
type Why string

// Reasons of a choice.
const (
	// Enforced: the definition says so, whatever the instance says.
	Enforced Why = "Enforced"
	// Referenced: the instance names it.
	Referenced Why = "Referenced"
	// Default: the definition says so for instances that don't.
	Default Why = "Default"
	// Matched: it has the labels that the instance asks for, or the instance asks for
	// nothing and it is for instances of its kind.
	Matched Why = "Matched"
	// Latest: it is the newest revision that there is for the instance.
	Latest Why = "Latest"
)

// Lack says why nothing can be chosen.
type Lack string

// What can be in the way of a choice.
const (
	// Missing: what was named isn't there.
	Missing Lack = "Missing"
	// Incompatible: what was named is for another kind.
	Incompatible Lack = "Incompatible"
	// NoneMatches: nothing that is there will do.
	NoneMatches Lack = "NoneMatches"
	// NoneYet: there is nothing yet to choose from, and there will be.
	NoneYet Lack = "NoneYet"
	// Unselectable: the selector makes no sense.
	Unselectable Lack = "Unselectable"
)

// Choice is the composition that an instance is to be composed by.
type Choice struct {
	// Name is that of the composition; it is set even if there is none of the name.
	Name string
	Why  Why

	// Composition is nil if there is something in the way.
	Composition *v1.Composition

	// Others would have done as well: they match like the chosen one, whose name comes
	// first. An instance that names its composition is not at their mercy.
	Others []string

	// Lack says what is in the way; "" if nothing is.
	Lack Lack

	// For is the kind that an incompatible composition is for; or, where none matches, the
	// kind that one is wanted for, and Labels are those that it has to have.
	For    v1.TypeReference
	Labels map[string]string
}

// Ambiguous says whether the choice could have fallen on another composition.
func (c Choice) Ambiguous() bool { return len(c.Others) > 0 }

// String says it to people.
func (c Choice) String() string {
	switch c.Lack {
	case Missing:
		return fmt.Sprintf("there is no composition %s (%s)", c.Name, c.Why)
	case Incompatible:
		return fmt.Sprintf("composition %s (%s) is for %s %s", c.Name, c.Why, c.For.APIVersion, c.For.Kind)
	case NoneMatches, NoneYet, Unselectable:
		text := fmt.Sprintf("there is no composition for %s %s (spec.compositeTypeRef)", c.For.APIVersion, c.For.Kind)
		if len(c.Labels) > 0 {
			text += " with the labels " + labels.FormatLabels(c.Labels)
		}
		return text
	}
	if c.Ambiguous() {
		return fmt.Sprintf("composition %s is the first by name of those that match; the others are %s", c.Name, strings.Join(c.Others, ", "))
	}
	return fmt.Sprintf("composition %s (%s)", c.Name, c.Why)
}

// Select chooses the composition of an instance: the one that its definition enforces;
// or else the one that it names; or else, where it doesn't select either, the
// definition's default; or else the first by name of those that have the labels that it
// asks for. The order of the compositions makes no difference.
func Select(compositions []*v1.Composition, i Instance, d *v1.CompositeResourceDefinition) Choice {
	match, selects := i.CompositionSelector()
	switch {
	case d.Spec.EnforcedCompositionRef != nil:
		return byName(compositions, d, d.Spec.EnforcedCompositionRef.Name, Enforced)
	case i.Composition() != "":
		return byName(compositions, d, i.Composition(), Referenced)
	case !selects && d.Spec.DefaultCompositionRef != nil:
		return byName(compositions, d, d.Spec.DefaultCompositionRef.Name, Default)
	}
	wanted := labels.SelectorFromValidatedSet(match)
	var matching []*v1.Composition
	for _, c := range compositions {
		if isFor(c, d) && wanted.Matches(labels.Set(c.Labels)) {
			matching = append(matching, c)
		}
	}
	if len(matching) == 0 {
		return Choice{Why: Matched, Lack: NoneMatches, For: v1.TypeReferenceTo(d.CompositeKind()), Labels: match}
	}
	slices.SortFunc(matching, func(a, b *v1.Composition) int { return cmp.Compare(a.Name, b.Name) })
	out := Choice{Name: matching[0].Name, Why: Matched, Composition: matching[0]}
	for _, c := range matching[1:] {
		out.Others = append(out.Others, c.Name)
	}
	return out
}

// byName chooses the composition of a name, if it is for the kind.
func byName(compositions []*v1.Composition, d *v1.CompositeResourceDefinition, name string, why Why) Choice {
	out := Choice{Name: name, Why: why}
	at := slices.IndexFunc(compositions, func(c *v1.Composition) bool { return c.Name == name })
	switch {
	case at < 0:
		out.Lack = Missing
	case !isFor(compositions[at], d):
		out.Lack, out.For = Incompatible, compositions[at].Spec.CompositeTypeRef
	default:
		out.Composition = compositions[at]
	}
	return out
}

// isFor says whether a composition is for composites of a definition: of the version
// that is referenceable, for compositions are written against its schema.
func isFor(c *v1.Composition, d *v1.CompositeResourceDefinition) bool {
	return c.Spec.CompositeTypeRef == v1.TypeReferenceTo(d.CompositeKind())
}
