package schema

import (
	"maps"
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Limits that keep one definition from exhausting the memory: types are expanded where
// they are used, so a short text can describe a huge schema.
const (
	// maxDepth bounds the nesting of fields, list items and map values.
	maxDepth = 32
	// maxFields bounds the fields of a schema after types are expanded.
	maxFields = 4096
	// maxFieldBytes bounds the definition of one field.
	maxFieldBytes = 16 << 10
	// maxName bounds the name of a field or of a type, in bytes.
	maxName = 253
)

// Options are the types that SimpleSchema may refer to besides the built-in ones.
type Options struct {
	// Types are the custom types by name, each a type expression or a struct. They may use each
	// other in any order, but not in a cycle.
	Types map[string]any
	// TypesPath is the path of the types in the document, for diagnostics.
	TypesPath object.Path
	// Ignored, if set, gets the markers that are accepted without an effect.
	Ignored *diag.List
	// Scaled, if set, is called for each field with the marker scale, sorted by path. It may refuse the marker.
	Scaled func(object.Path) *diag.Diagnostic
}

// Parse parses the SimpleSchema of an object's fields, as decoded JSON or YAML,
// into the object's schema. It reports every problem of the fields and of the
// types, used or not, each with the path of its field and the offset within its
// text.
//
// Without problems the schema is structural, and its defaults are valid. With problems it
// has the valid parts, for further checks and not to be served: an invalid part is a field
// that allows anything.
func Parse(spec map[string]any, at object.Path, o Options) (*extv1.JSONSchemaProps, diag.List) {
	p := &parser{types: o.Types, typesPath: o.TypesPath, scaled: o.Scaled, resolved: map[string]custom{}, cycles: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(o.Types)) {
		p.checkTypeName(name)
		p.resolve(name)
	}
	s := p.fields(spec, at, 0)
	if o.Ignored != nil {
		o.Ignored.Add(p.ignored.Sorted()...)
	}
	return s, p.problems.Sorted()
}

type parser struct {
	types     map[string]any
	typesPath object.Path
	resolved  map[string]custom
	// resolving are the types being expanded, outermost first.
	resolving []string
	cycles    map[string]bool
	count     int
	problems  diag.List
	ignored   diag.List
	scaled    func(object.Path) *diag.Diagnostic
}

func (p *parser) report(path object.Path, text string, problems ...diag.Diagnostic) {
	for _, d := range problems {
		d.Path, d.Expr = path, text
		p.problems.Add(d)
	}
}

// anything replaces an invalid part, so one mistake is reported once.
func anything() *extv1.JSONSchemaProps {
	yes := true
	return &extv1.JSONSchemaProps{XPreserveUnknownFields: &yes}
}
