package expr

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// collector walks an expression and collects the paths that it reads.
type collector struct {
	declared func(name string) bool
	refs     []Ref
	// selected, if set, is told of each field selection and of what it selects
	// from, as far as that is a path.
	selected func(id int64, from Ref, field string)
}

// scope binds the variables of comprehensions and of cel.bind to the paths that
// they stand for. A name bound to nothing hides an outer one.
type scope struct {
	outer *scope
	name  string
	ref   *Ref
}

func (s *scope) bind(name string, ref *Ref) *scope {
	if name == "" {
		return s
	}
	return &scope{outer: s, name: name, ref: ref}
}

func (c *collector) lookup(name string, s *scope) (Ref, bool) {
	for ; s != nil; s = s.outer {
		if s.name == name {
			if s.ref == nil {
				return Ref{}, false
			}
			return *s.ref, true
		}
	}
	return Ref{Root: name}, c.declared(name)
}

// visit collects what an expression reads. The guards are paths that are known
// to be there, because has() said so where the expression is evaluated.
func (c *collector) visit(e ast.Expr, s *scope, guards []Ref) {
	if r, ok := c.chain(e, s, guards); ok {
		c.add(r, guards)
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		c.visit(e.AsSelect().Operand(), s, guards)
	case ast.CallKind:
		c.call(e.AsCall(), s, guards)
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			c.visit(item, s, guards)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			c.visit(entry.AsMapEntry().Key(), s, guards)
			c.visit(entry.AsMapEntry().Value(), s, guards)
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			c.visit(field.AsStructField().Value(), s, guards)
		}
	case ast.ComprehensionKind:
		c.comprehension(e.AsComprehension(), s, guards)
	default: // literals and lone names that aren't declared read nothing
	}
}

func (c *collector) call(call ast.CallExpr, s *scope, guards []Ref) {
	args := call.Args()
	switch call.FunctionName() {
	case operators.Conditional:
		c.visit(args[0], s, guards)
		c.visit(args[1], s, append(guards[:len(guards):len(guards)], c.asked(args[0], true, s)...))
		c.visit(args[2], s, append(guards[:len(guards):len(guards)], c.asked(args[0], false, s)...))
		return
	case operators.LogicalAnd, operators.LogicalOr:
		holds := call.FunctionName() == operators.LogicalAnd
		for i, arg := range args {
			c.visit(arg, s, guards)
			if i < len(args)-1 {
				guards = append(guards[:len(guards):len(guards)], c.asked(arg, holds, s)...)
			}
		}
		return
	}
	if call.IsMemberFunction() {
		c.visit(call.Target(), s, guards)
	}
	for _, arg := range args {
		c.visit(arg, s, guards)
	}
}

// asked returns the paths that has() found there if the condition came out as
// told.
func (c *collector) asked(cond ast.Expr, outcome bool, s *scope) []Ref {
	switch cond.Kind() {
	case ast.SelectKind:
		if !outcome || !cond.AsSelect().IsTestOnly() {
			return nil
		}
		if r, ok := c.quiet().chain(cond, s, nil); ok {
			return []Ref{r}
		}
	case ast.CallKind:
		call := cond.AsCall()
		switch call.FunctionName() {
		case operators.LogicalNot:
			return c.asked(call.Args()[0], !outcome, s)
		case operators.LogicalAnd, operators.LogicalOr:
			if outcome != (call.FunctionName() == operators.LogicalAnd) {
				return nil
			}
			var out []Ref
			for _, arg := range call.Args() {
				out = append(out, c.asked(arg, outcome, s)...)
			}
			return out
		}
	default: // other expressions ask nothing
	}
	return nil
}

func (c *collector) comprehension(e ast.ComprehensionExpr, s *scope, guards []Ref) {
	c.visit(e.IterRange(), s, guards)
	c.visit(e.AccuInit(), s, guards)
	var item, bound *Ref
	if r, ok := c.source(e.IterRange(), s); ok {
		each := r.then(Step{Each: true})
		item = &each
	}
	// cel.bind is a comprehension over nothing whose accumulator is the variable.
	if r, ok := c.quiet().chain(e.AccuInit(), s, nil); ok {
		bound = &r
	}
	inner := s
	if e.HasIterVar2() {
		inner = inner.bind(e.IterVar(), nil).bind(e.IterVar2(), item)
	} else {
		inner = inner.bind(e.IterVar(), item)
	}
	inner = inner.bind(e.AccuVar(), bound)
	c.visit(e.LoopCondition(), inner, guards)
	c.visit(e.LoopStep(), inner, guards)
	c.visit(e.Result(), s.bind(e.AccuVar(), bound), guards)
}

// keeps are the functions whose result's items are items of their list.
var keeps = map[string]bool{"slice": true, "sort": true, "reverse": true, "distinct": true, "first": true, "last": true}

// source returns the path of the list whose items are those of an expression.
func (c *collector) source(e ast.Expr, s *scope) (Ref, bool) {
	if r, ok := c.quiet().chain(e, s, nil); ok {
		return r, true
	}
	switch e.Kind() {
	case ast.CallKind:
		if call := e.AsCall(); call.IsMemberFunction() && keeps[call.FunctionName()] {
			return c.source(call.Target(), s)
		}
	case ast.ComprehensionKind:
		if e := e.AsComprehension(); filters(e) {
			return c.source(e.IterRange(), s)
		}
	default: // items that are made here
	}
	return Ref{}, false
}

// filters recognises the filter macro: it adds its own variable to a list.
func filters(e ast.ComprehensionExpr) bool {
	step := e.LoopStep()
	if step.Kind() != ast.CallKind || step.AsCall().FunctionName() != operators.Conditional {
		return false
	}
	then := step.AsCall().Args()[1]
	if then.Kind() != ast.CallKind || then.AsCall().FunctionName() != operators.Add {
		return false
	}
	added := then.AsCall().Args()[1]
	if added.Kind() != ast.ListKind || added.AsList().Size() != 1 {
		return false
	}
	item := added.AsList().Elements()[0]
	return item.Kind() == ast.IdentKind && item.AsIdent() == e.IterVar()
}

func (c *collector) quiet() *collector { return &collector{declared: c.declared} }

// chain returns the path that an expression is, if it is one: names and
// constant indices from a declared name on. Computed indices are collected.
func (c *collector) chain(e ast.Expr, s *scope, guards []Ref) (Ref, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return c.lookup(e.AsIdent(), s)
	case ast.SelectKind:
		sel := e.AsSelect()
		from, ok := c.chain(sel.Operand(), s, guards)
		if !ok {
			return Ref{}, false
		}
		if c.selected != nil {
			c.selected(e.ID(), from, sel.FieldName())
		}
		return from.then(Step{Name: sel.FieldName(), Optional: sel.IsTestOnly() || chained(from)}), true
	case ast.CallKind:
		return c.indexed(e, s, guards)
	default:
		return Ref{}, false
	}
}

func (c *collector) indexed(e ast.Expr, s *scope, guards []Ref) (Ref, bool) {
	call := e.AsCall()
	optional := false
	switch call.FunctionName() {
	case operators.Index:
	case operators.OptIndex, operators.OptSelect:
		optional = true
	default:
		return Ref{}, false
	}
	from, ok := c.chain(call.Args()[0], s, guards)
	if !ok {
		return Ref{}, false
	}
	step := Step{Optional: optional || chained(from)}
	by := call.Args()[1]
	if by.Kind() == ast.LiteralKind {
		switch key := by.AsLiteral().(type) {
		case types.String:
			if key == "" {
				break // a path has no way to say so
			}
			step.Name = string(key)
			if c.selected != nil && call.FunctionName() == operators.OptSelect {
				c.selected(e.ID(), from, step.Name)
			}
			return from.then(step), true
		case types.Int:
			step.Index = int(key)
			return from.then(step), true
		}
	}
	c.visit(by, s, guards)
	step.Each = true
	return from.then(step), true
}

// chained tells whether the path's last step is optional, which makes further
// steps optional too: they select from an optional value.
func chained(r Ref) bool {
	return len(r.Path) > 0 && r.Path[len(r.Path)-1].Optional
}

// add records a path, with the steps that a guard vouches for as optional.
func (c *collector) add(r Ref, guards []Ref) {
	r.Path = append([]Step(nil), r.Path...)
	for _, g := range guards {
		if len(g.Path) > 0 && r.begins(Ref{Root: g.Root, Path: g.Path}) {
			r.Path[len(g.Path)-1].Optional = true
			r.Optional = true
		}
	}
	c.refs = append(c.refs, r)
}
