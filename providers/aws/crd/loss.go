package crd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// Loss is something that the schema of a type says about the desired state, and that its
// CustomResourceDefinition does not. AWS still checks it, when the resource is created or changed.
type Loss struct {
	Path resourcetype.Path
	What What
}

// What is a kind of loss.
type What string

// Kinds of losses.
const (
	// FreeForm: values of different types are allowed, so any value is.
	FreeForm What = "any type"
	// Recursion: the schema contains itself, and is not checked from there on.
	Recursion What = "recursive schema"
	// TooLarge: the schema is too large, and is not checked from there on.
	TooLarge What = "large schema"
	// Alternatives: properties of several alternatives are allowed together.
	Alternatives What = "alternatives"
	// Exclusion: properties that exclude each other are allowed together.
	Exclusion What = "exclusions"
	// Dependency: a rule about one property that depends on another.
	Dependency What = "dependencies"
	// Pattern: a regular expression that Go cannot compile.
	Pattern What = "patterns"
	// PatternCount: a regular expression with large repetition counts that are not checked.
	PatternCount What = "counts in patterns"
	// KeyPattern: a regular expression for the keys of a map.
	KeyPattern What = "patterns of keys"
	// Keys: a map that also has properties of its own; other keys may have any value.
	Keys What = "other keys"
	// Format: a format of strings that Kubernetes does not know.
	Format What = "formats"
	// Unique: items of an array that must differ.
	Unique What = "unique items"
	// Enum: values of an enumeration that are not of the property's type.
	Enum What = "enumerations"
	// CreateOnly: a property that can only be set at creation, which the API server cannot refuse to change.
	// The provider does not send the change.
	CreateOnly What = "immutability"
	// ConditionalCreateOnly: AWS refuses some changes of the property. The schema does not say which.
	ConditionalCreateOnly What = "conditional immutability"
	// Sibling: a reference or a Secret with the name of a property.
	Sibling What = "references"
)

// They are sorted by path and kind, without duplicates.
func sorted(losses []Loss) []Loss {
	compare := func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.Path.String(), b.Path.String()), cmp.Compare(a.What, b.What))
	}
	slices.SortFunc(losses, compare)
	return slices.CompactFunc(losses, func(a, b Loss) bool { return compare(a, b) == 0 })
}

// Count returns how many losses of each kind there are.
func Count(losses []Loss) map[What]int {
	out := map[What]int{}
	for _, loss := range losses {
		out[loss.What]++
	}
	return out
}

// maxListed is how many losses the description of a kind lists.
const maxListed = 25

// List returns the losses as text, by their kind: at most limit of them, as many of each kind as possible, and how
// many more there are.
func List(losses []Loss, limit int) string {
	byKind := map[What][]string{}
	for _, loss := range losses {
		name := loss.Path.String()
		if name == "" {
			name = "the properties together"
		}
		byKind[loss.What] = append(byKind[loss.What], name)
	}
	var parts []string
	listed := shares(Count(losses), limit)
	for _, what := range sortedKeys(byKind) {
		names := byKind[what]
		text := string(what) + ": " + strings.Join(names[:listed[what]], ", ")
		if more := len(names) - listed[what]; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func shares(counts map[What]int, limit int) map[What]int {
	out := map[What]int{}
	for left, changed := limit, true; changed; {
		changed = false
		for _, what := range sortedKeys(counts) {
			if left > 0 && out[what] < counts[what] {
				out[what]++
				left, changed = left-1, true
			}
		}
	}
	return out
}
