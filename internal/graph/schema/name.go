package schema

import (
	"slices"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// ofNames are the markers that a name can have. It is always there, and nothing but its
// author gives it a value.
var ofNames = []string{"minLength", "maxLength", "pattern", "enum", "validation"}

// ParseName turns markers alone into the schema of an object's name, whose type needn't
// be said.
func ParseName(markers string, at object.Path) (*extv1.JSONSchemaProps, diag.List) {
	const typed = "string | "
	text := typed + markers
	p := &parser{known: map[string]custom{}, cycles: map[string]bool{}}
	s, _ := p.shorthand(text, at, 0)
	problems := p.problems
	if len(problems) == 0 {
		given, _ := scan(text, len(typed))
		for _, m := range given {
			if !slices.Contains(ofNames, m.name) {
				problems.Add(diag.Diagnostic{Path: at, Expr: text, Offset: m.at, Problem: "marker \"" + m.name + "\" does not apply to a name", Expected: strings.Join(ofNames, ", ")})
			}
		}
		if len(given) == 0 {
			problems.Addf(at, "has no marker; it can have %s", strings.Join(ofNames, ", "))
		}
	}
	for i := range problems {
		if d := &problems[i]; d.Expr != "" {
			d.Expr, d.Offset = markers, max(d.Offset-len(typed), 0)
		}
	}
	return s, problems.Sorted()
}
