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
	root  piece
	scope *Scope
	at    object.Path
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

// piece is a part of a template: an objectPiece, a listPiece, a *valuePiece, a *textPiece, or else a literal in the
// form of JSON. There are many, so it is as small as an interface, and has no path: programs have theirs.
type piece any

// objectPiece and listPiece are an object and a list that contain expressions.
type (
	objectPiece []field
	listPiece   []piece
)

type field struct {
	name  string
	value piece
}

type valuePiece struct {
	*Program
	// shape is compared with each value of the expression; nil if the type proves that all
	// values fit.
	shape *shape
}

// textPiece is a string with at least one expression.
type textPiece struct {
	parts []part
	// shape is the shape of the field if it is compared with each value; otherwise nil.
	shape *shape
}

// part is literal text, or an expression if it has a program.
type part struct {
	text string
	prog *Program
}

func (p *textPiece) path() object.Path {
	i := slices.IndexFunc(p.parts, func(part part) bool { return part.prog != nil })
	return p.parts[i].prog.at
}

func isLiteral(p piece) bool {
	switch p.(type) {
	case objectPiece, listPiece, *valuePiece, *textPiece:
		return false
	}
	return true
}

// Template compiles a JSON document and checks it and its expressions against the schema of
// the document; with a nil schema it checks only the expressions. It returns all problems,
// with at as the prefix of their paths, and a nil template if there are any. It copies the
// document.
func (e *Env) Template(doc any, schema *spec.Schema, at object.Path) (*Template, diag.List) {
	c := templateCompiler{env: e, template: &Template{scope: e.Scope, at: at}}
	c.template.root = c.piece(plain.Copy(doc), e.shapes.of(schema, "template"), at)
	if len(c.problems) > 0 {
		return nil, c.problems.Sorted()
	}
	return c.template, nil
}

// Refs returns the paths that the template's expressions read, sorted and without
// duplicates.
func (t *Template) Refs() []Ref {
	var refs []Ref
	for _, x := range t.Expressions() {
		refs = append(refs, x.Program.Refs()...)
	}
	return mergeRefs(refs)
}

// Expressions returns the template's expressions in the order of its fields.
func (t *Template) Expressions() []Expression { return expressionsOf(t.root, nil, nil) }

func expressionsOf(p piece, at []any, to []Expression) []Expression {
	switch p := p.(type) {
	case objectPiece:
		for _, f := range p {
			to = expressionsOf(f.value, child(at, f.name), to)
		}
	case listPiece:
		for i, item := range p {
			to = expressionsOf(item, child(at, i), to)
		}
	case *valuePiece:
		to = append(to, Expression{Path: p.at, At: at, Program: p.Program, Standalone: true})
	case *textPiece:
		for _, part := range p.parts {
			if part.prog != nil {
				to = append(to, Expression{Path: part.prog.at, At: at, Program: part.prog})
			}
		}
	}
	return to
}

// Has reports whether the document sets a field: by a literal, by an expression in its place, or by one around it. Steps of the
// path are names of fields and indexes of items.
func (t *Template) Has(path []any) bool {
	p, rest := pieceAt(t.root, path)
	if _, isValue := p.(*valuePiece); isValue || len(rest) == 0 {
		return true
	}
	if !isLiteral(p) {
		return false
	}
	_, has := plainAt(p, rest)
	return has
}

// HasLiteral reports whether the document sets a field by a literal.
func (t *Template) HasLiteral(path []any) bool {
	p, _ := pieceAt(t.root, path)
	return isLiteral(p) && t.Has(path)
}

// ItemNamed returns the index of the item in the list at a path whose field name is this literal.
func (t *Template) ItemNamed(path []any, name string) (int, bool) {
	p, rest := pieceAt(t.root, path)
	if isLiteral(p) {
		v, _ := plainAt(p, rest)
		items, _ := v.([]any)
		i := slices.IndexFunc(items, func(item any) bool {
			has, _ := plainAt(item, []any{"name"})
			return has == name
		})
		return i, i >= 0
	}
	items, isList := p.(listPiece)
	if !isList || len(rest) > 0 {
		return 0, false
	}
	i := slices.IndexFunc(items, func(item piece) bool {
		at, rest := pieceAt(item, []any{"name"})
		if !isLiteral(at) {
			return false
		}
		has, _ := plainAt(at, rest)
		return has == name
	})
	return i, i >= 0
}

// pieceAt returns the piece at a path below another one, or the piece around it with the rest of the path.
func pieceAt(p piece, path []any) (_ piece, rest []any) {
	for i, step := range path {
		switch around := p.(type) {
		case objectPiece:
			at := slices.IndexFunc(around, func(f field) bool { return f.name == step })
			if at < 0 {
				return p, path[i:]
			}
			p = around[at].value
		case listPiece:
			index, isIndex := step.(int)
			if !isIndex || index < 0 || index >= len(around) {
				return p, path[i:]
			}
			p = around[index]
		default:
			return p, path[i:]
		}
	}
	return p, nil
}

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
	if !isLiteral(t.root) {
		return nil, false
	}
	return plain.Copy(t.root), true
}

type templateCompiler struct {
	env      *Env
	template *Template
	problems diag.List
}

func (c *templateCompiler) piece(doc any, s *shape, at object.Path) piece {
	switch v := doc.(type) {
	case map[string]any:
		return c.object(v, s, at)
	case []any:
		return c.list(v, s, at)
	case string:
		return c.text(v, s, at)
	default:
		c.problems.Add(checkLiteral(v, s, at)...)
		return v
	}
}

func (c *templateCompiler) object(doc map[string]any, s *shape, at object.Path) piece {
	if k := s.kindOf(); k != ofAnything && k != ofObject && k != ofMap {
		c.problems.Add(checkLiteral(doc, s, at)...)
		s = nil
	}
	out := make(objectPiece, 0, len(doc))
	constant := true
	for _, name := range sortedKeys(doc) {
		below, ok := s.field(name)
		if !ok {
			c.problems.Add(undeclaredField(name, s, at))
		}
		value := c.piece(doc[name], below, at.Field(name))
		constant = constant && isLiteral(value)
		out = append(out, field{name: name, value: value})
	}
	if constant {
		return doc
	}
	return out
}

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

func (c *templateCompiler) list(doc []any, s *shape, at object.Path) piece {
	if k := s.kindOf(); k != ofAnything && k != ofList {
		c.problems.Add(checkLiteral(doc, s, at)...)
		s = nil
	}
	below, _ := s.item()
	out := make(listPiece, 0, len(doc))
	constant := true
	for i, item := range doc {
		value := c.piece(item, below, at.Index(i))
		constant = constant && isLiteral(value)
		out = append(out, value)
	}
	if constant {
		return doc
	}
	return out
}

func child(path []any, step any) []any {
	return append(path[:len(path):len(path)], step)
}

func (c *templateCompiler) text(doc string, s *shape, at object.Path) piece {
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
		return &valuePiece{Program: prog.Program, shape: prog.uncheckedShape(s)}
	default:
		return c.interpolation(doc, segments, s, at)
	}
	return doc
}

func (c *templateCompiler) interpolation(doc string, segments []Segment, s *shape, at object.Path) piece {
	out := &textPiece{}
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
		out.parts = append(out.parts, part{prog: prog})
	}
	if !found {
		c.problems.Add(checkLiteral(doc, s, at)...)
		return doc
	}
	if s != nil && !literalFits("", s.kindOf()) {
		c.problems.Add(diag.Diagnostic{Path: at, Problem: "text around an expression makes a string", Expected: describeShape(s)})
	}
	if s.kindOf() == ofBytes {
		out.shape = s
	}
	return out
}

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
