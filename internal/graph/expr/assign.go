package expr

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/espalier-dev/espalier/internal/diag"
)

// fits checks that an expression's result may be put where a shape is expected.
// Where the expression builds an object, each of its fields is checked by
// itself.
func (p *compiled) fits(to *shape) diag.List {
	if to == nil {
		return nil
	}
	return p.fitsExpr(p.tree.Expr(), to)
}

func (p *compiled) fitsExpr(x ast.Expr, to *shape) diag.List {
	switch {
	case x.Kind() == ast.MapKind && (to.kindOf() == ofObject || to.kindOf() == ofMap):
		return p.fitsEntries(x.AsMap(), to)
	case x.Kind() == ast.ListKind && to.kindOf() == ofList:
		var out diag.List
		for _, item := range x.AsList().Elements() {
			out.Add(p.fitsExpr(item, to.elem)...)
		}
		return out
	case x.Kind() == ast.CallKind && x.AsCall().FunctionName() == operators.Conditional:
		args := x.AsCall().Args()
		return append(p.fitsExpr(args[1], to), p.fitsExpr(args[2], to)...)
	}
	t := p.tree.GetType(x.ID())
	problem, expected := p.env.shapes.mismatch(t, to, nil)
	if problem == "" {
		return nil
	}
	return diag.List{{
		Path: p.at, Expr: p.source, Offset: location(p.tree, p.source, x), Problem: "type mismatch: " + problem, Expected: expected,
	}}
}

func (p *compiled) fitsEntries(m ast.MapExpr, to *shape) diag.List {
	var out diag.List
	for _, e := range m.Entries() {
		entry := e.AsMapEntry()
		if entry.Key().Kind() != ast.LiteralKind {
			continue // known only when it is evaluated
		}
		name, ok := entry.Key().AsLiteral().(types.String)
		if !ok {
			out.Add(diag.Diagnostic{
				Path: p.at, Expr: p.source, Offset: location(p.tree, p.source, entry.Key()),
				Problem: "the key is no string", Expected: "string keys, as everywhere in JSON",
			})
			continue
		}
		below, ok := to.field(string(name))
		if !ok {
			out.Add(diag.Diagnostic{
				Path: p.at, Expr: p.source, Offset: location(p.tree, p.source, entry.Key()),
				Problem: fmt.Sprintf("there is no field %q here", string(name)),
				Nearest: diag.Nearest(string(name), to.fieldNames()),
			})
			continue
		}
		out.Add(p.fitsExpr(entry.Value(), below)...)
	}
	return out
}

// pair is a question that is being answered: recursive types ask it again.
type pair struct {
	from string
	to   *shape
}

// mismatch says why a value of a type doesn't belong where a shape is expected,
// and what does; both are empty if it belongs there.
func (r *shapes) mismatch(t *cel.Type, to *shape, asked map[pair]bool) (problem, expected string) {
	if inner, ok := unwrapped(t); ok {
		t = inner
	}
	wrong := func() (string, string) {
		return "the expression is " + describe(t), expectation(to)
	}
	switch t.Kind() {
	case cel.DynKind, cel.AnyKind, cel.NullTypeKind, types.ErrorKind, cel.TypeParamKind:
		return "", ""
	default: // it depends on what is expected
	}
	switch to.kindOf() {
	case ofAnything:
		return "", ""
	case ofObject, ofMap:
		switch t.Kind() {
		case cel.StructKind:
			if from := r.named(t.TypeName()); from != nil {
				return r.objectMismatch(from, to, asked)
			}
		case cel.MapKind:
			return r.mapMismatch(t, to, asked)
		default:
			return wrong()
		}
	case ofList:
		if t.Kind() != cel.ListKind {
			return wrong()
		}
		item := t.Parameters()[0]
		problem, expected := r.mismatch(item, to.elem, asked)
		if problem != "" && item.Kind() == cel.StructKind {
			return "of its items, " + problem, expected // both are lists of objects
		}
		if problem != "" {
			return wrong()
		}
		return "", ""
	default: // a scalar is expected
	}
	if scalarFits(t, to.kindOf()) {
		return "", ""
	}
	problem, expected = wrong()
	if to.kindOf() == ofText {
		expected += hint(t)
	}
	return problem, expected
}

// scalarFits tells whether a scalar may stand in a scalar field: as it is, or in
// the form that JSON gives it.
func scalarFits(t *cel.Type, to kind) bool {
	written := t.Kind() == cel.TimestampKind || t.Kind() == cel.DurationKind || writtenTypes[t.TypeName()]
	isText := t.Kind() == cel.StringKind
	isInt := t.Kind() == cel.IntKind || t.Kind() == cel.UintKind
	switch to {
	case ofText:
		return isText || written
	case ofBytes:
		return isText || t.Kind() == cel.BytesKind
	case ofDuration, ofTimestamp:
		return isText || written
	case ofInteger:
		return isInt
	case ofNumber:
		return isInt || t.Kind() == cel.DoubleKind
	case ofBoolean:
		return t.Kind() == cel.BoolKind
	case ofIntOrString:
		return isInt || isText
	case ofQuantity:
		return isInt || isText || written || t.Kind() == cel.DoubleKind
	default:
		return true
	}
}

// writtenTypes are the types of the Kubernetes libraries that JSON writes as
// strings.
var writtenTypes = map[string]bool{
	"kubernetes.Quantity": true, "kubernetes.Semver": true, "kubernetes.URL": true, "net.IP": true, "net.CIDR": true,
}

// objectMismatch compares two objects: one may lack fields of the other, but not
// have others.
func (r *shapes) objectMismatch(from, to *shape, asked map[pair]bool) (problem, expected string) {
	question := pair{from.name, to}
	if from == to || asked[question] {
		return "", ""
	}
	asked = with(asked, question)
	for _, name := range from.fieldNames() {
		below, ok := to.field(name)
		if !ok {
			return fmt.Sprintf("kind mismatch: the expression has a field %q that doesn't belong here", name), expectation(to)
		}
		own, _ := from.field(name)
		if problem, expected := r.mismatch(own.celType(), below, asked); problem != "" {
			return fmt.Sprintf("the field %q has a kind mismatch: %s", name, problem), expected
		}
	}
	return "", ""
}

// mapMismatch checks a map whose keys aren't known. For an object it is enough
// that one field could hold its values.
func (r *shapes) mapMismatch(t *cel.Type, to *shape, asked map[pair]bool) (problem, expected string) {
	key, value := t.Parameters()[0], t.Parameters()[1]
	if k := key.Kind(); k != cel.StringKind && k != cel.DynKind && k != cel.TypeParamKind {
		return "the expression is a map whose keys are " + plural(key), "string keys, as everywhere in JSON"
	}
	if to.kindOf() == ofMap {
		if problem, _ := r.mismatch(value, to.elem, asked); problem != "" {
			return "the expression is " + describe(t), expectation(to)
		}
		return "", ""
	}
	for _, name := range to.fieldNames() {
		below, _ := to.field(name)
		if problem, _ := r.mismatch(value, below, asked); problem == "" {
			return "", ""
		}
	}
	if to.open || to.elem != nil {
		return "", ""
	}
	return "the expression is " + describe(t), expectation(to)
}

func with(asked map[pair]bool, question pair) map[pair]bool {
	out := map[pair]bool{question: true}
	for q := range asked {
		out[q] = true
	}
	return out
}

// unwrapped returns what an optional type may hold.
func unwrapped(t *cel.Type) (*cel.Type, bool) {
	if t.Kind() != cel.OpaqueKind || t.TypeName() != "optional_type" {
		return nil, false
	}
	return t.Parameters()[0], true
}

// expectation describes a shape as one would in a sentence.
func expectation(s *shape) string {
	switch s.kindOf() {
	case ofIntOrString:
		return "an integer or a string"
	case ofQuantity:
		return "a quantity, as a string or a number"
	case ofBytes:
		return "a string of base64, or bytes"
	case ofTimestamp:
		return "a timestamp"
	default:
		return describe(s.celType())
	}
}

func hint(t *cel.Type) string {
	switch t.Kind() {
	case cel.IntKind, cel.UintKind, cel.DoubleKind, cel.BoolKind:
		return "; use string(…)"
	case cel.BytesKind:
		return "; use string(…) or base64.encode(…)"
	default:
		return ""
	}
}
