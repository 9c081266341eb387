package expr

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// flow follows the data of Secrets through a checked expression. It errs on the side of
// secrecy: what it does not know is computed from all of its inputs.
type flow struct {
	tree     *ast.AST
	declared func(name string) *Secrecy
}

type locals struct {
	outer   *locals
	name    string
	secrecy *Secrecy
}

func (l *locals) with(name string, secrecy *Secrecy) *locals {
	if name == "" {
		return l
	}
	return &locals{outer: l, name: name, secrecy: secrecy}
}

// of is the secrecy of the value of an expression. A computed value may have secret keys unless it is
// a scalar or a list of scalars.
func (f *flow) of(e ast.Expr, l *locals) *Secrecy {
	s := f.ofParts(e, l)
	switch e.Kind() {
	case ast.CallKind, ast.ComprehensionKind, ast.MapKind:
		if !isKeyless(f.tree.GetType(e.ID())) {
			return s.withKeys()
		}
	default: // the keys of a part are those of the value that it is a part of
	}
	return s
}

func isKeyless(t *cel.Type) bool {
	if inner, ok := unwrapped(t); ok {
		t = inner
	}
	switch t.Kind() {
	case cel.ListKind:
		return isKeyless(t.Parameters()[0])
	case cel.StringKind, cel.BytesKind, cel.BoolKind, cel.IntKind, cel.UintKind, cel.DoubleKind, cel.TimestampKind, cel.DurationKind, cel.NullTypeKind:
		return true
	default:
		return false
	}
}

func (f *flow) ofParts(e ast.Expr, l *locals) *Secrecy {
	switch e.Kind() {
	case ast.IdentKind:
		for ; l != nil; l = l.outer {
			if l.name == e.AsIdent() {
				return l.secrecy
			}
		}
		return f.declared(e.AsIdent())
	case ast.SelectKind:
		from := f.of(e.AsSelect().Operand(), l)
		if e.AsSelect().IsTestOnly() {
			return from.Shape()
		}
		return from.Field(e.AsSelect().FieldName())
	case ast.CallKind:
		return f.call(e.AsCall(), l)
	case ast.ListKind:
		var each *Secrecy
		for _, item := range e.AsList().Elements() {
			each = each.Join(f.of(item, l))
		}
		return SecretItems(each)
	case ast.MapKind:
		return f.entries(e.AsMap(), l)
	case ast.ComprehensionKind:
		return f.comprehension(e.AsComprehension(), l)
	case ast.StructKind:
		var out *Secrecy
		for _, field := range e.AsStruct().Fields() {
			out = out.Join(f.of(field.AsStructField().Value(), l).Derived())
		}
		return out
	default:
		return nil
	}
}

func (f *flow) entries(m ast.MapExpr, l *locals) *Secrecy {
	below := map[string]*Secrecy{}
	var each, byKey *Secrecy
	for _, e := range m.Entries() {
		entry := e.AsMapEntry()
		byKey = byKey.Join(f.of(entry.Key(), l).Derived())
		value := f.of(entry.Value(), l)
		if name, ok := constantText(entry.Key()); ok {
			below[name] = below[name].Join(value)
		} else {
			each = each.Join(value)
		}
	}
	out := newSecrecy(Secrecy{fields: below, each: each, keyed: true})
	if byKey != nil {
		return out.Join(byKey)
	}
	return out
}

func constantText(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().(types.String)
	return string(text), ok
}

func (f *flow) call(c ast.CallExpr, l *locals) *Secrecy {
	args := c.Args()
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	switch c.FunctionName() {
	case operators.Conditional:
		result := f.of(args[1], l).Join(f.of(args[2], l))
		if condition := f.of(args[0], l); condition != nil {
			return result.Join(condition.Derived())
		}
		return result
	case operators.Index, operators.OptIndex, operators.OptSelect:
		return f.index(args[0], args[1], l)
	case operators.Equals, operators.NotEquals:
		for i, arg := range args {
			if isNothing(arg) {
				return f.presence(args[1-i], l)
			}
		}
	case operators.In, operators.OldIn:
		return f.membership(args[0], args[1], l)
	case "hasValue":
		return f.presence(args[0], l)
	case "size":
		return f.of(args[0], l).Shape()
	case operators.Add, "or", "orValue", "merge", "value", "optional.of", "optional.ofNonZeroValue", "dyn", "reverse":
		var out *Secrecy
		for _, arg := range args {
			out = out.Join(f.of(arg, l))
		}
		return out
	case "cel.@mapInsert":
		return f.inserted(args, l)
	case readCondition:
		return f.of(args[0], l).Field("status").Field("conditions").Derived().Join(f.of(args[1], l).Derived())
	}
	var out *Secrecy
	for _, arg := range args {
		out = out.Join(f.of(arg, l).Derived())
	}
	return out
}

func (f *flow) index(of, by ast.Expr, l *locals) *Secrecy {
	from, key := f.of(of, l), f.of(by, l)
	part := from.Item()
	if name, ok := constantText(by); ok {
		part = from.Field(name)
	}
	if key != nil {
		return part.Join(key.Derived())
	}
	return part
}

func isNothing(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		return e.AsLiteral() == types.NullValue
	case ast.CallKind:
		return e.AsCall().FunctionName() == "optional.none"
	default:
		return false
	}
}

// presence is the secrecy of whether a value exists: for a part of another value, the secrecy of the other's keys, or
// else the secrecy of the value.
func (f *flow) presence(e ast.Expr, l *locals) *Secrecy {
	switch e.Kind() {
	case ast.SelectKind:
		if !e.AsSelect().IsTestOnly() {
			return f.of(e.AsSelect().Operand(), l).Shape()
		}
	case ast.CallKind:
		switch c := e.AsCall(); c.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
			return f.of(c.Args()[0], l).Shape().Join(f.of(c.Args()[1], l).Derived())
		}
	case ast.IdentKind:
		return f.of(e, l).Shape()
	default: // a value of its own
	}
	return f.of(e, l).Derived()
}

// membership is the secrecy of whether a list has an item, or a map a key.
func (f *flow) membership(value, in ast.Expr, l *locals) *Secrecy {
	container := f.of(in, l)
	found := container.Derived()
	if f.isMap(in, container) {
		found = container.Shape()
	}
	return found.Join(f.of(value, l).Derived())
}

func (f *flow) isMap(e ast.Expr, s *Secrecy) bool {
	switch f.tree.GetType(e.ID()).Kind() {
	case cel.MapKind, cel.StructKind:
		return true
	case cel.DynKind, cel.AnyKind:
		return s != nil && s.keyed
	default:
		return false
	}
}

// inserted is the secrecy of a map that a macro extends by an entry or by another map.
func (f *flow) inserted(args []ast.Expr, l *locals) *Secrecy {
	out := f.of(args[0], l)
	if len(args) == 2 {
		return out.Join(f.of(args[1], l))
	}
	if key := f.of(args[1], l); key != nil {
		out = out.Join(key.Derived())
	}
	return out.Join(SecretEntries(f.of(args[2], l)))
}

// maxFlowSteps bounds the iterations in which the result of a comprehension may still get more
// parts.
const maxFlowSteps = 4

// comprehension is the secrecy of the result of a comprehension. What a loop accumulates may
// flow into its next step.
func (f *flow) comprehension(e ast.ComprehensionExpr, l *locals) *Secrecy {
	over := f.of(e.IterRange(), l)
	first, second := over.Item(), over.Item()
	if e.HasIterVar2() || f.isMap(e.IterRange(), over) {
		first = over.Shape() // a key or an index
	}
	result := f.of(e.AccuInit(), l)
	for i := 0; ; i++ {
		inner := l.with(e.IterVar(), first).with(e.IterVar2(), second).with(e.AccuVar(), result)
		next := f.of(e.LoopStep(), inner).Join(f.of(e.LoopCondition(), inner).Derived())
		if result.covers(next) {
			break
		}
		if result = result.Join(next); i == maxFlowSteps {
			result = result.Derived()
		}
	}
	return f.of(e.Result(), l.with(e.AccuVar(), result)).Join(over.Shape())
}
