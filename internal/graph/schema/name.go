package schema

import (
	"slices"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// nameMarkers are the markers that apply to an object's name, which is always set and has
// no default.
var nameMarkers = []string{"minLength", "maxLength", "pattern", "enum", "validation", "message"}

// ParseName turns markers into the schema of an object's name. The markers come without a
// type, which is always string.
func ParseName(markers string, at object.Path) (*extv1.JSONSchemaProps, diag.List) {
	const typed = "string | "
	text := typed + markers
	p := &parser{resolved: map[string]custom{}, cycles: map[string]bool{}}
	s, _ := p.parseField(text, at, 0)
	problems := p.problems
	if len(problems) == 0 {
		given, _ := scanMarkers(text, len(typed))
		for _, m := range given {
			if !slices.Contains(nameMarkers, m.name) {
				problems.Add(diag.Diagnostic{Path: at, Expr: text, Offset: m.at, Problem: "marker \"" + m.name + "\" does not apply to a name",
					Expected: strings.Join(nameMarkers, ", ")})
			}
		}
		if len(given) == 0 {
			problems.Addf(at, "has no marker; it can have %s", strings.Join(nameMarkers, ", "))
		}
	}
	for i := range problems {
		if d := &problems[i]; d.Expr != "" {
			d.Expr, d.Offset = markers, max(d.Offset-len(typed), 0)
		}
	}
	return s, problems.Sorted()
}
