package schema

import (
	"maps"
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Limits that keep one definition from taking the memory of all: types are
// expanded where they are used, so a short text can describe a huge schema.
const (
	// maxDepth is how many fields, list items and map values may be nested.
	maxDepth = 32
	// maxFields is how many fields a schema may have once types are expanded.
	maxFields = 4096
	// maxShorthand is how many bytes the shorthand of one field may have.
	maxShorthand = 16 << 10
	// maxName is how many bytes the name of a field or of a type may have.
	maxName = 253
)

// Options is what a shorthand may refer to besides the built-in types.
type Options struct {
	// Types are the custom types by name, each a shorthand or a struct. They may
	// use one another in any order, though not in a circle.
	Types map[string]any
	// TypesPath is where the types are in the document, for diagnostics.
	TypesPath object.Path
}

// Parse turns the shorthand of an object's fields, as decoded JSON or YAML,
// into the object's schema. It reports every problem of the fields and of the
// types, used or not, each with the path of its field and the place within the
// shorthand.
//
// Without problems the schema is structural, and its defaults are valid. With
// problems it is what could be understood: fit to go on checking with, not to
// be served. What wasn't understood is in it as a field that holds anything.
func Parse(spec map[string]any, at object.Path, o Options) (*extv1.JSONSchemaProps, diag.List) {
	p := &parser{types: o.Types, typesPath: o.TypesPath, known: map[string]custom{}, cycles: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(o.Types)) {
		p.checkTypeName(name)
		p.resolve(name)
	}
	s := p.fields(spec, at, 0)
	return s, p.problems.Sorted()
}

// parser carries what is known of the types from field to field.
type parser struct {
	types     map[string]any
	typesPath object.Path
	known     map[string]custom
	// resolving are the types being expanded, outermost first.
	resolving []string
	cycles    map[string]bool
	// count is how many fields the schema at hand has so far.
	count    int
	problems diag.List
}

// report adds problems of the shorthand text of the field at path.
func (p *parser) report(path object.Path, text string, problems ...diag.Diagnostic) {
	for _, d := range problems {
		d.Path, d.Expr = path, text
		p.problems.Add(d)
	}
}

// anything stands for what wasn't understood, so that one mistake is told once.
func anything() *extv1.JSONSchemaProps {
	yes := true
	return &extv1.JSONSchemaProps{XPreserveUnknownFields: &yes}
}
