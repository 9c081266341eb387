package expr

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
	"github.com/espalier-dev/espalier/internal/object"
)

// Template is a compiled document with strings that may contain expressions. It is immutable
// and safe for concurrent use.
type Template struct {
	root        piece
	scope       *Scope
	at          object.Path
	expressions []Expression
	refs        []Ref
}

// Expression is one expression of a template.
type Expression struct {
	// Path is the field, including the path of the template. At is the field's path inside
	// the template: strings for fields, ints for items.
	Path object.Path
	At   []any
	// Program evaluates it.
	Program *Program
	// Standalone says that the expression is the whole value of the field; otherwise it is
	// a part of a string.
	Standalone bool
}

// piece is a part of a template: a literal, an object, a list, an expression, or a string
// with expressions, as its kind says.
type piece struct {
	literal any
	fields  []field
	items   []piece
	prog    *Program
	parts   []part
	path    object.Path
	kind    pieceKind
	// shape is compared with each value of an expression; nil if the type proves that all
	// values fit.
	shape *shape
}

type pieceKind int

const (
	literal pieceKind = iota
	fields
	list
	standalone
	interpolated
)

type field struct {
	name  string
	value piece
}

// part is literal text, or an expression if it has a program.
type part struct {
	text string
	prog *Program
}

// Template compiles a JSON document and checks it and its expressions against the schema of
// the document; with a nil schema it checks only the expressions. It returns all problems,
// with at as the prefix of their paths, and a nil template if there are any. It copies the
// document.
func (e *Env) Template(doc any, schema *spec.Schema, at object.Path) (*Template, diag.List) {
	c := templateCompiler{env: e, template: &Template{scope: e.Scope, at: at}}
	c.template.root = c.piece(plain.Copy(doc), e.shapes.of(schema, "template"), at, nil)
	if len(c.problems) > 0 {
		return nil, c.problems.Sorted()
	}
	for _, x := range c.template.expressions {
		c.template.refs = append(c.template.refs, x.Program.Refs()...)
	}
	c.template.refs = mergeRefs(c.template.refs)
	return c.template, nil
}

// Refs returns the paths that the template's expressions read, sorted and without
// duplicates.
func (t *Template) Refs() []Ref { return t.refs }

// Expressions returns the template's expressions in the order of its fields.
func (t *Template) Expressions() []Expression { return t.expressions }

// Has reports whether the document sets a field: by a literal, by an expression in its place, or by one around it. Steps of the
// path are names of fields and indexes of items.
func (t *Template) Has(path []any) bool {
	p, rest := t.pieceAt(path)
	switch {
	case len(rest) == 0 || p.kind == standalone:
		return true
	case p.kind == literal:
		_, has := plainAt(p.literal, rest)
		return has
	}
	return false
}

// HasLiteral reports whether the document sets a field by a literal.
func (t *Template) HasLiteral(path []any) bool {
	p, _ := t.pieceAt(path)
	return p.kind == literal && t.Has(path)
}

// ItemNamed returns the index of the item in the list at a path whose field name is this literal.
func (t *Template) ItemNamed(path []any, name string) (int, bool) {
	p, rest := t.pieceAt(path)
	if p.kind == literal {
		v, _ := plainAt(p.literal, rest)
		items, _ := v.([]any)
		i := slices.IndexFunc(items, func(item any) bool {
			has, _ := plainAt(item, []any{"name"})
			return has == name
		})
		return i, i >= 0
	}
	if len(rest) > 0 || p.kind != list {
		return 0, false
	}
	i := slices.IndexFunc(p.items, func(item piece) bool {
		one := Template{root: item}
		at, rest := one.pieceAt([]any{"name"})
		has, _ := plainAt(at.literal, rest)
		return at.kind == literal && has == name
	})
	return i, i >= 0
}

// pieceAt returns the piece at a path, or the one around it with the rest of the path.
func (t *Template) pieceAt(path []any) (p *piece, rest []any) {
	p = &t.root
	for i, step := range path {
		switch p.kind {
		case fields:
			at := slices.IndexFunc(p.fields, func(f field) bool { return f.name == step })
			if at < 0 {
				return p, path[i:]
			}
			p = &p.fields[at].value
		case list:
			index, isIndex := step.(int)
			if !isIndex || index < 0 || index >= len(p.items) {
				return p, path[i:]
			}
			p = &p.items[index]
		case literal, standalone, interpolated:
			return p, path[i:]
		}
	}
	return p, nil
}

// plainAt returns the value at a path of a document.
func plainAt(v any, path []any) (any, bool) {
	for _, step := range path {
		var has bool
		switch step := step.(type) {
		case string:
			object, _ := v.(map[string]any)
			v, has = object[step]
		case int:
			items, _ := v.([]any)
			if has = step >= 0 && step < len(items); has {
				v = items[step]
			}
		}
		if !has {
			return nil, false
		}
	}
	return v, true
}

// Literal returns a copy of the document if it contains no expressions.
func (t *Template) Literal() (any, bool) {
	if len(t.expressions) > 0 {
		return nil, false
	}
	return plain.Copy(t.root.literal), true
}

type templateCompiler struct {
	env      *Env
	template *Template
	problems diag.List
}

func (c *templateCompiler) piece(doc any, s *shape, at object.Path, path []any) piece {
	switch v := doc.(type) {
	case map[string]any:
		return c.object(v, s, at, path)
	case []any:
		return c.list(v, s, at, path)
	case string:
		return c.text(v, s, at, path)
	default:
		c.problems.Add(checkLiteral(v, s, at)...)
		return piece{literal: v, path: at}
	}
}

func (c *templateCompiler) object(doc map[string]any, s *shape, at object.Path, path []any) piece {
	if k := s.kindOf(); k != ofAnything && k != ofObject && k != ofMap {
		c.problems.Add(checkLiteral(doc, s, at)...)
		s = nil
	}
	out := piece{kind: fields, path: at, fields: make([]field, 0, len(doc))}
	constant := true
	for _, name := range sortedKeys(doc) {
		below, ok := s.field(name)
		if !ok {
			c.problems.Add(undeclaredField(name, s, at))
		}
		value := c.piece(doc[name], below, at.Field(name), child(path, name))
		constant = constant && value.kind == literal
		out.fields = append(out.fields, field{name: name, value: value})
	}
	if constant {
		return piece{literal: doc, path: at}
	}
	return out
}

// undeclaredField is the diagnostic of a field that the schema lacks.
func undeclaredField(name string, s *shape, at object.Path) diag.Diagnostic {
	d := diag.Diagnostic{Path: at.Field(name), Problem: fmt.Sprintf("there is no field %q here", name)}
	for _, field := range s.fieldNames() {
		if read, is := diag.YAMLBoolean(field); is && read == name && field != name {
			d.Problem += fmt.Sprintf(": YAML reads the key %s as the boolean %s unless it is quoted", field, name)
			d.Expected = fmt.Sprintf("the key %q", field)
			return d
		}
	}
	d.Nearest = diag.Nearest(name, s.fieldNames())
	return d
}

func (c *templateCompiler) list(doc []any, s *shape, at object.Path, path []any) piece {
	if k := s.kindOf(); k != ofAnything && k != ofList {
		c.problems.Add(checkLiteral(doc, s, at)...)
		s = nil
	}
	below, _ := s.item()
	out := piece{kind: list, path: at, items: make([]piece, 0, len(doc))}
	constant := true
	for i, item := range doc {
		value := c.piece(item, below, at.Index(i), child(path, i))
		constant = constant && value.kind == literal
		out.items = append(out.items, value)
	}
	if constant {
		return piece{literal: doc, path: at}
	}
	return out
}

func child(path []any, step any) []any {
	return append(path[:len(path):len(path)], step)
}

func (c *templateCompiler) text(doc string, s *shape, at object.Path, path []any) piece {
	segments, err := Split(doc)
	switch {
	case err != nil:
		c.problems.Add(diag.Diagnostic{Path: at, Expr: err.Text, Problem: err.Problem})
	case len(segments) == 1 && segments[0].Expr:
		prog, problems := c.env.compileExpression(segments[0].Text, at)
		c.problems.Add(problems...)
		if prog == nil {
			break
		}
		c.problems.Add(prog.checkAssignable(s)...)
		c.addExpression(prog.Program, path, true)
		return piece{kind: standalone, prog: prog.Program, path: at, shape: prog.uncheckedShape(s)}
	default:
		return c.interpolation(doc, segments, s, at, path)
	}
	return piece{literal: doc, path: at}
}

func (c *templateCompiler) interpolation(doc string, segments []Segment, s *shape, at object.Path, path []any) piece {
	out := piece{kind: interpolated, path: at}
	found := false
	for _, segment := range segments {
		if !segment.Expr {
			out.parts = append(out.parts, part{text: segment.Text})
			continue
		}
		found = true
		prog, problems := c.env.Compile(segment.Text, at)
		c.problems.Add(problems...)
		if prog == nil {
			continue
		}
		c.problems.Add(prog.checkInterpolation()...)
		c.addExpression(prog, path, false)
		out.parts = append(out.parts, part{prog: prog})
	}
	if !found {
		c.problems.Add(checkLiteral(doc, s, at)...)
		return piece{literal: doc, path: at}
	}
	if s != nil && !literalFits("", s.kindOf()) {
		c.problems.Add(diag.Diagnostic{Path: at, Problem: "text around an expression makes a string", Expected: describeShape(s)})
	}
	if s.kindOf() == ofBytes {
		out.shape = s
	}
	return out
}

func (c *templateCompiler) addExpression(prog *Program, path []any, standalone bool) {
	c.template.expressions = append(c.template.expressions, Expression{
		Path: prog.at, At: path, Program: prog, Standalone: standalone,
	})
}

// checkInterpolation checks that the expression can be a part of a string.
func (p *Program) checkInterpolation() diag.List {
	switch p.typ.Kind() {
	case cel.StringKind, cel.DynKind, cel.AnyKind:
		return nil
	default: // not a string, and CEL does not convert it implicitly
	}
	return diag.List{{
		Path: p.at, Expr: p.source, Problem: "the expression is " + describe(p.typ) + ", inside a string",
		Expected: "a string" + interpolationHint(p.typ),
	}}
}

func interpolationHint(t *cel.Type) string {
	if _, optional := unwrapped(t); optional {
		return "; use .orValue(…)"
	}
	return conversionHint(t)
}
