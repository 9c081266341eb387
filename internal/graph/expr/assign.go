package expr

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/espalier-dev/espalier/internal/diag"
)

// checkAssignable checks that an expression's result fits the expected shape. If the
// expression builds an object, each of its fields is checked separately.
func (p *compiled) checkAssignable(to *shape) diag.List {
	if to == nil {
		return nil
	}
	return p.checkAssignableExpr(p.tree.Expr(), to)
}

func (p *compiled) checkAssignableExpr(x ast.Expr, to *shape) diag.List {
	switch {
	case x.Kind() == ast.MapKind && (to.kindOf() == ofObject || to.kindOf() == ofMap):
		return p.checkAssignableEntries(x.AsMap(), to)
	case x.Kind() == ast.ListKind && to.kindOf() == ofList:
		var out diag.List
		for _, item := range x.AsList().Elements() {
			out.Add(p.checkAssignableExpr(item, to.elem)...)
		}
		return out
	case x.Kind() == ast.CallKind && x.AsCall().FunctionName() == operators.Conditional:
		args := x.AsCall().Args()
		return append(p.checkAssignableExpr(args[1], to), p.checkAssignableExpr(args[2], to)...)
	}
	t := p.tree.GetType(x.ID())
	problem, expected := p.scope.shapes.mismatch(t, to, nil)
	if problem == "" {
		return nil
	}
	return diag.List{{
		Path: p.at, Expr: p.source, Offset: startOffset(p.tree, p.source, x), Problem: "type mismatch: " + problem, Expected: expected,
	}}
}

func (p *compiled) checkAssignableEntries(m ast.MapExpr, to *shape) diag.List {
	var out diag.List
	for _, e := range m.Entries() {
		entry := e.AsMapEntry()
		if entry.Key().Kind() != ast.LiteralKind {
			continue // the key is known only after evaluation
		}
		name, ok := entry.Key().AsLiteral().(types.String)
		if !ok {
			out.Add(diag.Diagnostic{
				Path: p.at, Expr: p.source, Offset: startOffset(p.tree, p.source, entry.Key()),
				Problem: "the key is not a string", Expected: "string keys, as everywhere in JSON",
			})
			continue
		}
		below, ok := to.field(string(name))
		if !ok {
			out.Add(diag.Diagnostic{
				Path: p.at, Expr: p.source, Offset: startOffset(p.tree, p.source, entry.Key()),
				Problem: fmt.Sprintf("there is no field %q here", string(name)),
				Nearest: diag.Nearest(string(name), to.fieldNames()),
			})
			continue
		}
		out.Add(p.checkAssignableExpr(entry.Value(), below)...)
	}
	return out
}

// comparison is a pair of types that are being compared. Recursive types meet it again.
type comparison struct {
	from string
	to   *shape
}

// mismatch says why a value of a type does not fit the expected shape, and what would fit;
// both are empty if it fits.
func (r *shapes) mismatch(t *cel.Type, to *shape, visited map[comparison]bool) (problem, expected string) {
	if inner, ok := unwrapped(t); ok {
		t = inner
	}
	wrong := func() (string, string) {
		return "the expression is " + describe(t), describeShape(to)
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
			if from := r.byTypeName(t.TypeName()); from != nil {
				return r.objectMismatch(from, to, visited)
			}
		case cel.MapKind:
			return r.mapMismatch(t, to, visited)
		default:
			return wrong()
		}
	case ofList:
		if t.Kind() != cel.ListKind {
			return wrong()
		}
		item := t.Parameters()[0]
		problem, expected := r.mismatch(item, to.elem, visited)
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
	if to.kindOf() == ofString {
		expected += conversionHint(t)
	}
	return problem, expected
}

// scalarFits reports whether a scalar fits a scalar field, unchanged or in its JSON form.
func scalarFits(t *cel.Type, to kind) bool {
	written := t.Kind() == cel.TimestampKind || t.Kind() == cel.DurationKind || stringTypes[t.TypeName()]
	isText := t.Kind() == cel.StringKind
	isInt := t.Kind() == cel.IntKind || t.Kind() == cel.UintKind
	switch to {
	case ofString:
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

// stringTypes are the types of the Kubernetes libraries with a string as their JSON form.
var stringTypes = map[string]bool{
	"kubernetes.Quantity": true, "kubernetes.Semver": true, "kubernetes.URL": true, "net.IP": true, "net.CIDR": true,
}

// objectMismatch compares two objects: from may lack fields of to, but must not have other fields.
func (r *shapes) objectMismatch(from, to *shape, visited map[comparison]bool) (problem, expected string) {
	current := comparison{from.object.name, to}
	if from == to || visited[current] {
		return "", ""
	}
	visited = withComparison(visited, current)
	for _, name := range from.fieldNames() {
		below, ok := to.field(name)
		if !ok {
			return fmt.Sprintf("kind mismatch: the expression has a field %q that doesn't belong here", name), describeShape(to)
		}
		own, _ := from.field(name)
		if problem, expected := r.mismatch(own.celType(), below, visited); problem != "" {
			return fmt.Sprintf("the field %q has a kind mismatch: %s", name, problem), expected
		}
	}
	return "", ""
}

// mapMismatch checks a map with unknown keys. It fits an object if its values fit at least
// one field.
func (r *shapes) mapMismatch(t *cel.Type, to *shape, visited map[comparison]bool) (problem, expected string) {
	key, value := t.Parameters()[0], t.Parameters()[1]
	if k := key.Kind(); k != cel.StringKind && k != cel.DynKind && k != cel.TypeParamKind {
		return "the map's keys are " + pluralNoun(key), "string keys, as everywhere in JSON"
	}
	if to.kindOf() == ofMap {
		if problem, _ := r.mismatch(value, to.elem, visited); problem != "" {
			return "the expression is " + describe(t), describeShape(to)
		}
		return "", ""
	}
	for _, name := range to.fieldNames() {
		below, _ := to.field(name)
		if problem, _ := r.mismatch(value, below, visited); problem == "" {
			return "", ""
		}
	}
	if to.object.open || to.elem != nil {
		return "", ""
	}
	return "the expression is " + describe(t), describeShape(to)
}

func withComparison(visited map[comparison]bool, current comparison) map[comparison]bool {
	out := map[comparison]bool{current: true}
	for q := range visited {
		out[q] = true
	}
	return out
}

func unwrapped(t *cel.Type) (*cel.Type, bool) {
	if t.Kind() != cel.OpaqueKind || t.TypeName() != "optional_type" {
		return nil, false
	}
	return t.Parameters()[0], true
}

// describeShape describes a shape for a sentence, with its article.
func describeShape(s *shape) string {
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

func conversionHint(t *cel.Type) string {
	switch t.Kind() {
	case cel.IntKind, cel.UintKind, cel.DoubleKind, cel.BoolKind:
		return "; use string(…)"
	case cel.BytesKind:
		return "; use string(…) or base64.encode(…)"
	default:
		return ""
	}
}
