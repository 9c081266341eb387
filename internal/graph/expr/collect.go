package expr

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
)

type collector struct {
	isDeclared func(name string) bool
	refs       []Ref
	// onSelect, if set, is called for each field selection from a path, with the path.
	onSelect    func(id int64, from Ref, field string)
	conditional bool
	// wholes are the declared names that are read as a whole, and has() of paths, by their parts of the expression.
	wholes map[int64]wholeRead
	// selectsItems says that the expression selects by index or by a computed key. sources are the
	// lists whose items a computed list contains, by the selection from it.
	selectsItems bool
	sources      map[int64]Ref
	// indexed are the attributes that decorate has decorated.
	indexed map[interpreter.Attribute]bool
}

// scope binds the variables of comprehensions and of cel.bind to the paths of their
// values. A name without a path hides an outer one.
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

func (c *collector) resolve(name string, s *scope) (Ref, bool) {
	for ; s != nil; s = s.outer {
		if s.name == name {
			if s.ref == nil {
				return Ref{}, false
			}
			return *s.ref, true
		}
	}
	return Ref{Root: name}, c.isDeclared(name)
}

// visit collects the paths that an expression reads. The guards are paths that exist
// whenever the expression is evaluated, because has() has checked them.
func (c *collector) visit(e ast.Expr, s *scope, guards []Ref) {
	if r, ok := c.pathOf(e, s, guards); ok {
		r.Conditional = c.addWhole(e, r) || c.conditional
		c.add(r, guards)
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		c.visit(e.AsSelect().Operand(), s, guards)
	case ast.CallKind:
		c.visitCall(e, s, guards)
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
		c.visitComprehension(e.AsComprehension(), s, guards)
	default: // literals and lone names that aren't declared read nothing
	}
}

// addWhole records a name that is read as a whole, or has() of a path. It reports whether it is has().
func (c *collector) addWhole(e ast.Expr, r Ref) bool {
	isTest := e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly()
	isName := e.Kind() == ast.IdentKind && e.AsIdent() == r.Root
	if isTest && len(r.Path) > 1 || isName && len(r.Path) == 0 {
		if c.wholes == nil {
			c.wholes = map[int64]wholeRead{}
		}
		c.wholes[e.ID()] = wholeRead{name: r.Root, isTest: isTest}
	}
	return isTest
}

func (c *collector) visitConditional(e ast.Expr, s *scope, guards []Ref) {
	outer := c.conditional
	c.conditional = true
	c.visit(e, s, guards)
	c.conditional = outer
}

func (c *collector) visitCall(e ast.Expr, s *scope, guards []Ref) {
	call := e.AsCall()
	args := call.Args()
	visitArgument := c.visit
	switch call.FunctionName() {
	case operators.Conditional:
		c.visit(args[0], s, guards)
		c.visitConditional(args[1], s, append(guards[:len(guards):len(guards)], c.presencePaths(args[0], true, s)...))
		c.visitConditional(args[2], s, append(guards[:len(guards):len(guards)], c.presencePaths(args[0], false, s)...))
		return
	case operators.LogicalAnd, operators.LogicalOr:
		holds := call.FunctionName() == operators.LogicalAnd
		c.visit(args[0], s, guards)
		for i, arg := range args {
			if i > 0 {
				c.visitConditional(arg, s, guards)
			}
			if i < len(args)-1 {
				guards = append(guards[:len(guards):len(guards)], c.presencePaths(arg, holds, s)...)
			}
		}
		return
	case "or", "orValue":
		visitArgument = c.visitConditional
	case operators.Index:
		c.addSource(e, s)
	}
	if call.IsMemberFunction() {
		c.visit(call.Target(), s, guards)
	}
	for _, arg := range args {
		visitArgument(arg, s, guards)
	}
}

// addSource records the list whose items a computed list contains, for the selection of one of them.
func (c *collector) addSource(selection ast.Expr, s *scope) {
	c.selectsItems = true
	from := selection.AsCall().Args()[0]
	for from.Kind() == ast.ComprehensionKind && !isFilterMacro(from.AsComprehension()) {
		from = from.AsComprehension().IterRange()
	}
	if r, ok := c.listPath(from, s); ok {
		if c.sources == nil {
			c.sources = map[int64]Ref{}
		}
		c.sources[selection.ID()] = r
	}
}

// presencePaths returns the paths that exist, according to has(), if the condition has the
// given outcome.
func (c *collector) presencePaths(cond ast.Expr, outcome bool, s *scope) []Ref {
	switch cond.Kind() {
	case ast.SelectKind:
		if !outcome || !cond.AsSelect().IsTestOnly() {
			return nil
		}
		if r, ok := c.withoutRefs().pathOf(cond, s, nil); ok {
			return []Ref{r}
		}
	case ast.CallKind:
		call := cond.AsCall()
		switch call.FunctionName() {
		case operators.LogicalNot:
			return c.presencePaths(call.Args()[0], !outcome, s)
		case operators.LogicalAnd, operators.LogicalOr:
			if outcome != (call.FunctionName() == operators.LogicalAnd) {
				return nil
			}
			var out []Ref
			for _, arg := range call.Args() {
				out = append(out, c.presencePaths(arg, outcome, s)...)
			}
			return out
		}
	default: // other expressions check no path
	}
	return nil
}

func (c *collector) visitComprehension(e ast.ComprehensionExpr, s *scope, guards []Ref) {
	c.visit(e.IterRange(), s, guards)
	c.visit(e.AccuInit(), s, guards)
	var item, bound *Ref
	if r, ok := c.listPath(e.IterRange(), s); ok {
		each := r.child(Step{Each: true})
		item = &each
	}
	// cel.bind is a comprehension over an empty list, with the variable as accumulator.
	if r, ok := c.withoutRefs().pathOf(e.AccuInit(), s, nil); ok {
		bound = &r
	}
	inner := s
	if e.HasIterVar2() {
		inner = inner.bind(e.IterVar(), nil).bind(e.IterVar2(), item)
	} else {
		inner = inner.bind(e.IterVar(), item)
	}
	inner = inner.bind(e.AccuVar(), bound)
	c.visitConditional(e.LoopCondition(), inner, guards)
	c.visitConditional(e.LoopStep(), inner, guards)
	c.visit(e.Result(), s.bind(e.AccuVar(), bound), guards)
}

var itemPreservingFunctions = map[string]bool{"slice": true, "sort": true, "reverse": true, "distinct": true, "first": true, "last": true}

// listPath returns the path of the list that the items of an expression's result come from.
func (c *collector) listPath(e ast.Expr, s *scope) (Ref, bool) {
	if r, ok := c.withoutRefs().pathOf(e, s, nil); ok {
		return r, true
	}
	switch e.Kind() {
	case ast.CallKind:
		if call := e.AsCall(); call.IsMemberFunction() && itemPreservingFunctions[call.FunctionName()] {
			return c.listPath(call.Target(), s)
		}
	case ast.ComprehensionKind:
		if e := e.AsComprehension(); isFilterMacro(e) {
			return c.listPath(e.IterRange(), s)
		}
	default: // the expression creates its items
	}
	return Ref{}, false
}

// isFilterMacro recognizes the expansion of the filter macro: it adds its own variable to a
// list.
func isFilterMacro(e ast.ComprehensionExpr) bool {
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

// decorate plans the parts of the visited expression that CEL's own evaluation does not suffice for. A name as a whole, and has()
// of a path, then cost a unit less.
func (c *collector) decorate(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if w, ok := c.wholes[i.ID()]; ok {
		w.InterpretableV2 = i
		return w, nil
	}
	attribute, is := i.(interpreter.InterpretableAttribute)
	if !is || !c.selectsItems || c.indexed[attribute.Attr()] {
		return i, nil // each selection from an attribute passes it again
	}
	if c.indexed == nil {
		c.indexed = map[interpreter.Attribute]bool{}
	}
	c.indexed[attribute.Attr()] = true
	return indexed{attribute, c.sources}, nil
}

func (c *collector) withoutRefs() *collector { return &collector{isDeclared: c.isDeclared} }

// pathOf returns the path that an expression consists of, if it is one: a declared name
// followed by field names and constant indices. It visits computed indices.
func (c *collector) pathOf(e ast.Expr, s *scope, guards []Ref) (Ref, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return c.resolve(e.AsIdent(), s)
	case ast.SelectKind:
		sel := e.AsSelect()
		from, ok := c.pathOf(sel.Operand(), s, guards)
		if !ok {
			return Ref{}, false
		}
		if c.onSelect != nil {
			c.onSelect(e.ID(), from, sel.FieldName())
		}
		return from.child(Step{Name: sel.FieldName(), Optional: sel.IsTestOnly() || endsOptional(from)}), true
	case ast.CallKind:
		return c.indexPath(e, s, guards)
	default:
		return Ref{}, false
	}
}

func (c *collector) indexPath(e ast.Expr, s *scope, guards []Ref) (Ref, bool) {
	call := e.AsCall()
	optional := false
	switch call.FunctionName() {
	case operators.Index:
	case operators.OptIndex, operators.OptSelect:
		optional = true
	default:
		return Ref{}, false
	}
	from, ok := c.pathOf(call.Args()[0], s, guards)
	if !ok {
		return Ref{}, false
	}
	step := Step{Optional: optional || endsOptional(from)}
	by := call.Args()[1]
	if by.Kind() == ast.LiteralKind {
		switch key := by.AsLiteral().(type) {
		case types.String:
			if key == "" {
				break // a path cannot express an empty key
			}
			step.Name = string(key)
			if c.onSelect != nil && call.FunctionName() == operators.OptSelect {
				c.onSelect(e.ID(), from, step.Name)
			}
			return from.child(step), true
		case types.Int:
			c.selectsItems, step.Index = true, int(key)
			return from.child(step), true
		}
	}
	c.visit(by, s, guards)
	c.selectsItems, step.Each = true, true
	return from.child(step), true
}

// endsOptional reports whether the path's last step is optional. Further steps then are optional too: they select
// from an optional value.
func endsOptional(r Ref) bool {
	return len(r.Path) > 0 && r.Path[len(r.Path)-1].Optional
}

// Steps that a guard has checked become optional.
func (c *collector) add(r Ref, guards []Ref) {
	r.Path = append([]Step(nil), r.Path...)
	for _, g := range guards {
		if len(g.Path) > 0 && r.mayHavePrefix(Ref{Root: g.Root, Path: g.Path}) {
			r.Path[len(g.Path)-1].Optional = true
			r.Optional = true
		}
	}
	c.refs = append(c.refs, r)
}
