package environment

import (
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
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
	Type                string                       `json:"type"`
	Key                 string                       `json:"key"`
	Value               *string                      `json:"value"`
	ValueFromFieldPath  string                       `json:"valueFromFieldPath"`
	FromFieldPathPolicy string                       `json:"fromFieldPathPolicy"`
	Transforms          patchandtransform.Transforms `json:"transforms"`
}

// The values of enum fields.
const (
	byReference     = "Reference"
	bySelector      = "Selector"
	fromComposite   = "FromCompositeFieldPath"
	fromEnvironment = "FromEnvironmentFieldPath"
	fromValue       = "Value"
	single          = "Single"
	multiple        = "Multiple"
	optional        = "Optional"
	required        = "Required"
)

// decode returns all problems of the input.
func decode(o map[string]any) (in *input, problems diag.List) {
	in = &input{}
	strict.Decode(o, in, "", &problems)
	c := check{&problems}
	c.oneOf("spec.policy.resolution", &in.Spec.Policy.Resolution, required, optional)
	for i := range in.Spec.EnvironmentConfigs {
		c.source(object.Path("spec.environmentConfigs").Index(i), &in.Spec.EnvironmentConfigs[i])
	}
	return in, problems.Sorted()
}

// check validates an input beyond the types of its fields, and sets defaults.
type check struct{ problems *diag.List }

func (c check) source(at object.Path, s *source) {
	c.oneOf(at.Field("type"), &s.Type, byReference, bySelector)
	c.path(at.Field("toFieldPath"), s.ToFieldPath)
	switch {
	case s.Type == byReference && (s.Ref == nil || s.Ref.Name == ""):
		c.problems.Addf(at.Field("ref", "name"), "is not set")
	case s.Type == bySelector && s.Selector == nil:
		c.problems.Addf(at.Field("selector"), "is not set")
	case s.Type == bySelector:
		c.selector(at.Field("selector"), s.Selector)
	}
}

func (c check) selector(at object.Path, s *selector) {
	c.oneOf(at.Field("mode"), &s.Mode, single, multiple)
	c.path(at.Field("sortByFieldPath"), s.SortByFieldPath)
	for field, n := range map[string]*int64{"minMatch": s.MinMatch, "maxMatch": s.MaxMatch} {
		if n != nil && *n < 0 {
			c.problems.Addf(at.Field(field), "is negative")
		}
	}
	for i := range s.MatchLabels {
		m, at := &s.MatchLabels[i], at.Field("matchLabels").Index(i)
		c.oneOf(at.Field("type"), &m.Type, fromComposite, fromEnvironment, fromValue)
		c.oneOf(at.Field("fromFieldPathPolicy"), &m.FromFieldPathPolicy, required, optional)
		if m.Key == "" {
			c.problems.Addf(at.Field("key"), "is not set")
		}
		switch {
		case m.Type == fromValue && m.Value == nil:
			c.problems.Addf(at.Field("value"), "is not set")
		case m.Type != fromValue && m.ValueFromFieldPath == "":
			c.problems.Addf(at.Field("valueFromFieldPath"), "is not set")
		}
		c.path(at.Field("valueFromFieldPath"), m.ValueFromFieldPath)
		m.Transforms.Validate(at.Field("transforms"), c.problems)
	}
}

// The first known value is the default.
func (c check) oneOf(at object.Path, text *string, known ...string) {
	if *text == "" {
		*text = known[0]
	}
	if !slices.Contains(known, *text) {
		c.problems.Add(diag.Diagnostic{
			Path: at, Problem: "cannot be " + strconv.Quote(diag.Truncate(*text, 100)),
			Expected: strings.Join(known, ", "), Nearest: diag.Nearest(*text, known),
		})
	}
}

func (c check) path(at object.Path, path string) {
	if _, err := fieldpath.Parse(path); err != nil {
		c.problems.Addf(at, "%v", err)
	}
}

// Check lists the problems that make the function fail with an input.
func Check(input map[string]any) diag.List {
	_, problems := decode(input)
	return problems
}
