package extraresources

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
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
type matcher struct {
	Type                string  `json:"type"`
	Key                 string  `json:"key"`
	Value               *string `json:"value"`
	ValueFromFieldPath  string  `json:"valueFromFieldPath"`
	FromFieldPathPolicy string  `json:"fromFieldPathPolicy"`
}

// The values of enum fields.
const (
	byReference   = "Reference"
	bySelector    = "Selector"
	fromComposite = "FromCompositeFieldPath"
	fromValue     = "Value"
	optional      = "Optional"
	required      = "Required"
)

// decode returns all problems of the input, and sets defaults.
func decode(o map[string]any) (in *input, problems diag.List) {
	in = &input{}
	strict.Decode(o, in, "", &problems)
	c := check{&problems}
	c.oneOf("spec.policy.resolution", &in.Spec.Policy.Resolution, required, optional)
	in.Spec.Context.Key = cmp.Or(in.Spec.Context.Key, defaultKey)
	if len(in.Spec.ExtraResources) == 0 {
		c.problems.Addf("spec.extraResources", "is not set")
	}
	seen := map[string]bool{}
	for i := range in.Spec.ExtraResources {
		s, at := &in.Spec.ExtraResources[i], object.Path("spec.extraResources").Index(i)
		c.source(at, s)
		if seen[s.Into] {
			c.problems.Addf(at.Field("into"), "%q occurs twice", s.Into)
		}
		seen[s.Into] = true
	}
	return in, problems.Sorted()
}

type check struct{ problems *diag.List }

func (c check) source(at object.Path, s *source) {
	c.oneOf(at.Field("type"), &s.Type, byReference, bySelector)
	for field, value := range map[string]string{"into": s.Into, "kind": s.Kind, "apiVersion": s.APIVersion} {
		if value == "" {
			c.problems.Addf(at.Field(field), "is not set")
		}
	}
	if s.Type == byReference {
		if s.Ref.Name == "" {
			c.problems.Addf(at.Field("ref", "name"), "is not set")
		}
		return
	}
	at = at.Field("selector")
	c.path(at.Field("sortByFieldPath"), s.Selector.SortByFieldPath)
	for field, n := range map[string]*int64{"minMatch": s.Selector.MinMatch, "maxMatch": s.Selector.MaxMatch} {
		if n != nil && *n < 0 {
			c.problems.Addf(at.Field(field), "is negative")
		}
	}
	for i := range s.Selector.MatchLabels {
		c.matcher(at.Field("matchLabels").Index(i), &s.Selector.MatchLabels[i])
	}
}

func (c check) matcher(at object.Path, m *matcher) {
	c.oneOf(at.Field("type"), &m.Type, fromComposite, fromValue)
	c.oneOf(at.Field("fromFieldPathPolicy"), &m.FromFieldPathPolicy, required, optional)
	if m.Key == "" {
		c.problems.Addf(at.Field("key"), "is not set")
	}
	switch {
	case m.Type == fromValue && m.Value == nil:
		c.problems.Addf(at.Field("value"), "is not set")
	case m.Type == fromComposite && m.ValueFromFieldPath == "":
		c.problems.Addf(at.Field("valueFromFieldPath"), "is not set")
	}
	c.path(at.Field("valueFromFieldPath"), m.ValueFromFieldPath)
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
