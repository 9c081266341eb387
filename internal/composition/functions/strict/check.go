package strict

import (
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Matcher is a label to select by. Its value is literal or read from a field.
type Matcher struct {
	Type                string  `json:"type"`
	Key                 string  `json:"key"`
	Value               *string `json:"value"`
	ValueFromFieldPath  string  `json:"valueFromFieldPath"`
	FromFieldPathPolicy string  `json:"fromFieldPathPolicy"`
}

// The values of enum fields.
const (
	FromValue = "Value"
	Optional  = "Optional"
	Required  = "Required"
)

// Check validates an input beyond the types of its fields, and sets defaults.
type Check struct{ Problems *diag.List }

// OneOf checks an enum field. The first known value is the default.
func (c Check) OneOf(at object.Path, text *string, known ...string) {
	if *text == "" {
		*text = known[0]
	}
	if !slices.Contains(known, *text) {
		c.Problems.Add(diag.Diagnostic{
			Path: at, Problem: "cannot be " + strconv.Quote(diag.Truncate(*text, 100)),
			Expected: strings.Join(known, ", "), Nearest: diag.Nearest(*text, known),
		})
	}
}

// Path checks the path of a field.
func (c Check) Path(at object.Path, path string) {
	if _, err := fieldpath.Parse(path); err != nil {
		c.Problems.Addf(at, "%v", err)
	}
}

// Set checks that a field is set.
func (c Check) Set(at object.Path, value string) {
	if value == "" {
		c.Problems.Addf(at, "is not set")
	}
}

// Matches checks the bounds of a number of matches.
func (c Check) Matches(at object.Path, least, most *int64) {
	for field, n := range map[string]*int64{"minMatch": least, "maxMatch": most} {
		if n != nil && *n < 0 {
			c.Problems.Addf(at.Field(field), "is negative")
		}
	}
}

// Matcher checks a label to select by, whose value is FromValue or from one of the sources; the first one is the default.
func (c Check) Matcher(at object.Path, m *Matcher, sources ...string) {
	c.OneOf(at.Field("type"), &m.Type, append(sources, FromValue)...)
	c.OneOf(at.Field("fromFieldPathPolicy"), &m.FromFieldPathPolicy, Required, Optional)
	c.Set(at.Field("key"), m.Key)
	switch {
	case m.Type == FromValue && m.Value == nil:
		c.Problems.Addf(at.Field("value"), "is not set")
	case slices.Contains(sources, m.Type):
		c.Set(at.Field("valueFromFieldPath"), m.ValueFromFieldPath)
	}
	c.Path(at.Field("valueFromFieldPath"), m.ValueFromFieldPath)
}
