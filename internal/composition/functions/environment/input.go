package environment

import (
	"github.com/espalier-dev/espalier/internal/composition/functions/patchandtransform"
	"github.com/espalier-dev/espalier/internal/composition/functions/strict"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

type input struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       spec           `json:"spec"`
}

type spec struct {
	DefaultData        map[string]any `json:"defaultData"`
	EnvironmentConfigs []source       `json:"environmentConfigs"`
	Policy             struct {
		Resolution string `json:"resolution"`
		Resolve    string `json:"resolve"` // it is always resolved
	} `json:"policy"`
}

// source selects EnvironmentConfigs: the one of a name, or those with labels.
type source struct {
	Type        string    `json:"type"`
	Ref         *ref      `json:"ref"`
	Selector    *selector `json:"selector"`
	ToFieldPath string    `json:"toFieldPath"`
}

type ref struct {
	Name string `json:"name"`
}

type selector struct {
	Mode            string    `json:"mode"`
	MaxMatch        *int64    `json:"maxMatch"`
	MinMatch        *int64    `json:"minMatch"`
	SortByFieldPath string    `json:"sortByFieldPath"`
	MatchLabels     []matcher `json:"matchLabels"`
}

// matcher is a label to select by. Its value is literal or read from the composite or the
// environment.
type matcher struct {
	strict.Matcher
	Transforms patchandtransform.Transforms `json:"transforms"`
}

// The values of enum fields.
const (
	byReference     = "Reference"
	bySelector      = "Selector"
	fromComposite   = "FromCompositeFieldPath"
	fromEnvironment = "FromEnvironmentFieldPath"
	single          = "Single"
	multiple        = "Multiple"
)

// decode returns all problems of the input.
func decode(o map[string]any) (in *input, problems diag.List) {
	in = &input{}
	strict.Decode(o, in, "", &problems)
	c := strict.Check{Problems: &problems}
	c.OneOf("spec.policy.resolution", &in.Spec.Policy.Resolution, strict.Required, strict.Optional)
	for i := range in.Spec.EnvironmentConfigs {
		in.Spec.EnvironmentConfigs[i].check(c, object.Path("spec.environmentConfigs").Index(i))
	}
	return in, problems.Sorted()
}

func (s *source) check(c strict.Check, at object.Path) {
	c.OneOf(at.Field("type"), &s.Type, byReference, bySelector)
	c.Path(at.Field("toFieldPath"), s.ToFieldPath)
	switch {
	case s.Type == byReference && (s.Ref == nil || s.Ref.Name == ""):
		c.Problems.Addf(at.Field("ref", "name"), "is not set")
	case s.Type == bySelector && s.Selector == nil:
		c.Problems.Addf(at.Field("selector"), "is not set")
	case s.Type == bySelector:
		s.Selector.check(c, at.Field("selector"))
	}
}

func (s *selector) check(c strict.Check, at object.Path) {
	c.OneOf(at.Field("mode"), &s.Mode, single, multiple)
	c.Path(at.Field("sortByFieldPath"), s.SortByFieldPath)
	c.Matches(at, s.MinMatch, s.MaxMatch)
	for i := range s.MatchLabels {
		m, at := &s.MatchLabels[i], at.Field("matchLabels").Index(i)
		c.Matcher(at, &m.Matcher, fromComposite, fromEnvironment)
		m.Transforms.Validate(at.Field("transforms"), c.Problems)
	}
}

// Check lists the problems that make the function fail with an input.
func Check(input map[string]any) diag.List {
	_, problems := decode(input)
	return problems
}
