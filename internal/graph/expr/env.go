package expr

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/parser"
	k8slibrary "k8s.io/apiserver/pkg/cel/library"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/graph/expr/library"
)

// Declaration is a name that expressions may read: schema, the id of a node, the
// variable of an iteration.
type Declaration struct {
	Name string
	// Schema types the value; nil leaves it untyped. It must not change.
	Schema *spec.Schema
	// List makes the value a list of what Schema describes.
	List bool
	// Value, if set, types the value instead of Schema, as what a template of the same
	// environment renders.
	Value *Template
	// Type, if set, types the value instead of Schema, with a type that a
	// program of the same environment has: the items of what it iterates over.
	Type *cel.Type
	// Hidden, if set, says that the value is an object of the cluster, or with List a list of them,
	// and which of its labels and annotations only expressions that name them read.
	Hidden Hidden
	// MissingFieldHints explain, by name, why the value lacks a field that authors may
	// expect.
	MissingFieldHints map[string]string
}

// Env declares the names that expressions may read. It is immutable and safe for
// concurrent use.
type Env struct {
	*Scope
	cel   *cel.Env // parses and checks expressions
	empty *cel.Env // declares no names
}

// base is built once: declaring the libraries takes milliseconds.
var base = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.OptionalTypes(),
		ext.TwoVarComprehensions(),
		ext.Lists(),
		ext.Strings(),
		ext.Bindings(),
		ext.Encoders(),
		k8slibrary.Lists(),
		k8slibrary.URLs(),
		k8slibrary.Regex(),
		k8slibrary.Quantity(),
		k8slibrary.IP(),
		k8slibrary.CIDR(),
		k8slibrary.SemverLib(k8slibrary.SemverVersion(1)),
	}
	options = slices.Concat(options, library.All(), clockOptions(), progressOptions())
	return cel.NewEnv(append(options, cel.Macros(cel.GlobalMacro(operators.Has, 1, expandHas)))...)
})

// expandHas is CEL's macro has, with errors that name its arguments.
func expandHas(eh cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
	switch args[0].Kind() {
	case ast.SelectKind:
		return parser.MakeHas(eh, target, args)
	case ast.IdentKind:
		return nil, eh.NewError(args[0].ID(), fmt.Sprintf("has() takes a field, such as has(%[1]s.metadata), which is false if %[1]s is skipped", args[0].AsIdent()))
	default:
		return nil, eh.NewError(args[0].ID(), `has() takes a field, such as has(a.b); of a key use "key" in a.b, and of an optional value a.?b.hasValue()`)
	}
}

// NewEnv returns an environment with the dialect's functions and the given
// names. It costs milliseconds: build one per definition and extend it.
func NewEnv(decls []Declaration, limits Limits) (*Env, error) {
	library, err := base()
	if err != nil {
		return nil, fmt.Errorf("the expression library: %w", err)
	}
	root := &Scope{planner: library, limits: limits.withDefaults(), shapes: newShapes()}
	empty, err := root.emptyChecker(library)
	if err != nil {
		return nil, err
	}
	return (&Env{Scope: root, cel: empty, empty: empty}).With(decls...)
}

// With returns an environment with further names. A new declaration replaces an older one
// of the same name.
func (e *Env) With(decls ...Declaration) (*Env, error) {
	scope := *e.Scope
	if scope.vars = maps.Clone(e.vars); scope.vars == nil {
		scope.vars = map[string]*shape{}
	}
	if scope.parts = maps.Clone(e.parts); scope.parts == nil {
		scope.parts = map[string]objectPart{}
	}
	scope.missingFieldHints = maps.Clone(e.missingFieldHints)
	scope.names = e.names.without(decls)
	from := e.cel
	for _, d := range decls {
		if d.MissingFieldHints != nil {
			if scope.missingFieldHints == nil {
				scope.missingFieldHints = map[string]map[string]string{}
			}
			scope.missingFieldHints[d.Name] = d.MissingFieldHints
		}
		if e.declares(d.Name) {
			from = e.empty // CEL cannot remove a single name
		}
		scope.vars[d.Name], scope.parts[d.Name] = e.shapeOf(d), partOf(d)
	}
	options := scope.variables(func(name string) bool { return from != e.empty && e.declares(name) })
	if from == e.empty && e.conditional {
		options = append(options, conditionOptions(conditionShapeOf(e.shapes))...)
	}
	extended, err := from.Extend(options...)
	if err != nil {
		return nil, fmt.Errorf("declare %v: %w", declarationNames(decls), err)
	}
	return &Env{Scope: &scope, cel: extended, empty: e.empty}, nil
}

func (e *Env) shapeOf(d Declaration) *shape {
	s := e.shapes.of(d.Schema, d.Name)
	if d.Value != nil {
		s = e.shapes.ofPiece(d.Value.root, d.Name)
	}
	if d.Type != nil {
		s = e.shapes.ofCELType(d.Type)
	}
	if d.List {
		s = &shape{kind: ofList, elem: s, cel: cel.ListType(s.celType())}
	}
	return s
}

func (r *shapes) ofCELType(t *cel.Type) *shape {
	s := &shape{cel: t}
	switch t.Kind() {
	case cel.StructKind:
		return r.byTypeName(t.TypeName())
	case cel.ListKind:
		s.kind, s.elem = ofList, r.ofCELType(t.Parameters()[0])
	case cel.MapKind:
		s.kind, s.elem = ofMap, r.ofCELType(t.Parameters()[1])
	case cel.StringKind:
		s.kind = ofString
	case cel.IntKind:
		s.kind = ofInteger
	case cel.DoubleKind:
		s.kind = ofNumber
	case cel.BoolKind:
		s.kind = ofBoolean
	case cel.TimestampKind:
		s.kind = ofTimestamp
	case cel.DurationKind:
		s.kind = ofDuration
	case cel.BytesKind:
		s.kind = ofBytes
	default:
		return nil
	}
	return s
}

func declarationNames(decls []Declaration) []string {
	out := make([]string, len(decls))
	for i, d := range decls {
		out[i] = d.Name
	}
	return out
}
