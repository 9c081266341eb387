package extraresources

import (
	"cmp"

	"github.com/espalier-dev/espalier/internal/composition/functions/strict"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

type input struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		Context struct {
			Key string `json:"key"`
		} `json:"context"`
		ExtraResources []source `json:"extraResources"`
		Policy         struct {
			Resolution string `json:"resolution"`
			Resolve    string `json:"resolve"` // it is always resolved
		} `json:"policy"`
	} `json:"spec"`
}

// source selects objects: the one of a name, or those with labels.
type source struct {
	Type string `json:"type"`
	Ref  struct {
		Name string `json:"name"`
	} `json:"ref"`
	Selector   selector `json:"selector"`
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Namespace  string   `json:"namespace"`
	Into       string   `json:"into"`
}

type selector struct {
	MaxMatch        *int64    `json:"maxMatch"`
	MinMatch        *int64    `json:"minMatch"`
	SortByFieldPath string    `json:"sortByFieldPath"`
	MatchLabels     []matcher `json:"matchLabels"`
}

// matcher is a label to select by. Its value is literal or read from the composite.
type matcher struct{ strict.Matcher }

// The values of enum fields.
const (
	byReference   = "Reference"
	bySelector    = "Selector"
	fromComposite = "FromCompositeFieldPath"
)

// decode returns all problems of the input, and sets defaults.
func decode(o map[string]any) (in *input, problems diag.List) {
	in = &input{}
	strict.Decode(o, in, "", &problems)
	c := strict.Check{Problems: &problems}
	c.OneOf("spec.policy.resolution", &in.Spec.Policy.Resolution, strict.Required, strict.Optional)
	in.Spec.Context.Key = cmp.Or(in.Spec.Context.Key, defaultKey)
	if len(in.Spec.ExtraResources) == 0 {
		c.Problems.Addf("spec.extraResources", "is not set")
	}
	seen := map[string]bool{}
	for i := range in.Spec.ExtraResources {
		s, at := &in.Spec.ExtraResources[i], object.Path("spec.extraResources").Index(i)
		s.check(c, at)
		if seen[s.Into] {
			c.Problems.Addf(at.Field("into"), "%q occurs twice", s.Into)
		}
		seen[s.Into] = true
	}
	return in, problems.Sorted()
}

func (s *source) check(c strict.Check, at object.Path) {
	c.OneOf(at.Field("type"), &s.Type, byReference, bySelector)
	for field, value := range map[string]string{"into": s.Into, "kind": s.Kind, "apiVersion": s.APIVersion} {
		c.Set(at.Field(field), value)
	}
	if s.Type == byReference {
		c.Set(at.Field("ref", "name"), s.Ref.Name)
		return
	}
	at = at.Field("selector")
	c.Path(at.Field("sortByFieldPath"), s.Selector.SortByFieldPath)
	c.Matches(at, s.Selector.MinMatch, s.Selector.MaxMatch)
	for i := range s.Selector.MatchLabels {
		c.Matcher(at.Field("matchLabels").Index(i), &s.Selector.MatchLabels[i].Matcher, fromComposite)
	}
}

// Check lists the problems that make the function fail with an input.
func Check(input map[string]any) diag.List {
	_, problems := decode(input)
	return problems
}
