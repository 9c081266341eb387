package expr

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Condition is one condition that an author's expression gives.
type Condition struct{ Type, Status, Reason, Message string }

// Conditions are the compiled expressions of status.conditions: each gives a condition, or a
// list of them, with runtime.newCondition. They are immutable and safe for concurrent use.
type Conditions struct {
	entries []*Program
	types   []string
	refs    []Ref
}

// Types lists, sorted, the condition types that the expressions name as literals.
func (c *Conditions) Types() []string { return c.types }

// Programs returns the expressions in their order.
func (c *Conditions) Programs() []*Program { return c.entries }

// Refs returns the paths that the expressions read, sorted.
func (c *Conditions) Refs() []Ref { return c.refs }

// Eval evaluates the expressions in order, within a budget or, if that is nil, without one. missing contains the
// error of each expression without a value, as Program.EvalWithin returns it.
func (c *Conditions) Eval(b *Budget, vars map[string]any) (found []Condition, missing []error) {
	for _, p := range c.entries {
		value, err := p.EvalWithin(b, vars)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, one := range list {
			m, _ := one.(map[string]any)
			text := func(key string) string { s, _ := m[key].(string); return s }
			found = append(found, Condition{Type: text("type"), Status: text("status"), Reason: text("reason"), Message: text("message")})
		}
	}
	return found, missing
}

const (
	newConditionMacro = "newCondition"          // called as runtime.newCondition
	newCondition      = "@runtime.newCondition" // the macro expands to this function
	readCondition     = "runtime.condition"
)

var (
	conditionKeys     = []string{"type", "status", "reason", "message"}
	conditionStatuses = []string{"True", "False", "Unknown"}
	conditionSchema   = &spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{
		"type": *spec.StringProperty(), "status": *spec.StringProperty(), "reason": *spec.StringProperty(), "message": *spec.StringProperty(),
	}}}
)

func conditionShapeOf(s *shapes) *shape { return s.of(conditionSchema, "condition") }

// withConditions returns an environment that declares runtime.newCondition and
// runtime.condition, and the shape of their result.
func (e *Env) withConditions() (*Env, *shape, error) {
	condition, scope := conditionShapeOf(e.shapes), *e.Scope
	options := conditionOptions(condition)
	extended, err := e.cel.Extend(options...)
	if err == nil {
		scope.conditional = true
		scope.planner, err = e.planner.Extend(options...)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the expressions of conditions: %w", err)
	}
	return &Env{Scope: &scope, cel: extended, empty: e.empty}, condition, nil
}

func conditionOptions(condition *shape) []cel.EnvOption {
	text := cel.StringType
	return []cel.EnvOption{
		cel.Macros(cel.ReceiverMacro(newConditionMacro, 1, expandNewCondition)),
		cel.Function(newCondition, cel.Overload("runtime_new_condition", []*cel.Type{text, text, text, text}, condition.celType(),
			cel.FunctionBinding(func(args ...ref.Val) ref.Val { return makeCondition(condition, args) }))),
		cel.Function(readCondition, cel.Overload("runtime_condition", []*cel.Type{cel.DynType, text}, condition.celType(),
			cel.BinaryBinding(func(o, kind ref.Val) ref.Val { return findCondition(condition, o, kind) }))),
	}
}

// expandNewCondition turns the fields of a condition into arguments, so each is type checked separately. Their names
// need no quotes.
func expandNewCondition(eh cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
	if target.Kind() != ast.IdentKind || target.AsIdent() != "runtime" {
		return nil, nil
	}
	if args[0].Kind() != ast.MapKind {
		return nil, eh.NewError(args[0].ID(), "the argument of runtime.newCondition must be a map of type, status, reason and message")
	}
	fields := map[string]ast.Expr{}
	for _, e := range args[0].AsMap().Entries() {
		entry := e.AsMapEntry()
		name := ""
		switch key := entry.Key(); key.Kind() {
		case ast.IdentKind:
			name = key.AsIdent()
		case ast.LiteralKind:
			name, _ = key.AsLiteral().Value().(string)
		default: // not the name of a field
		}
		if !slices.Contains(conditionKeys, name) {
			return nil, eh.NewError(e.ID(), fmt.Sprintf("unknown key %q: a condition has type, status, reason and message", name))
		}
		if fields[name] != nil {
			return nil, eh.NewError(e.ID(), "the field "+name+" is given twice")
		}
		fields[name] = entry.Value()
	}
	call := make([]ast.Expr, len(conditionKeys))
	for i, name := range conditionKeys {
		call[i] = fields[name]
		if call[i] == nil && i < 2 {
			return nil, eh.NewError(args[0].ID(), "a condition must have a "+name)
		}
		if call[i] == nil {
			call[i] = eh.NewLiteral(types.String(""))
		}
	}
	return eh.NewCall(newCondition, call...), nil
}

func makeCondition(conditionShape *shape, args []ref.Val) ref.Val {
	m := map[string]any{}
	for i, name := range conditionKeys {
		text, ok := args[i].(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(args[i])
		}
		m[name] = string(text)
	}
	if problem := conditionProblem(m["type"], m["status"]); problem != "" {
		return types.WrapErr(errors.New(problem))
	}
	return wrap(m, conditionShape, objectPart{}, nil)
}

// conditionProblem checks the type and the status only as far as they are known.
func conditionProblem(kind, status any) string {
	text, known := status.(string)
	switch {
	case kind == "":
		return "the type of a condition is empty"
	case known && !slices.Contains(conditionStatuses, text):
		return fmt.Sprintf("the status of a condition is %q; a status must be one of True, False or Unknown", text)
	}
	return ""
}

// A missing condition has empty fields.
func findCondition(conditionShape *shape, o, kind ref.Val) ref.Val {
	wanted, ok := kind.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(kind)
	}
	of, ok := o.(*mapping)
	if !ok {
		return types.MaybeNoSuchOverloadErr(o)
	}
	out := map[string]any{"type": "", "status": "", "reason": "", "message": ""}
	list, _ := asMap(of.m["status"])["conditions"].([]any)
	for _, item := range list {
		if c := asMap(item); c["type"] == string(wanted) {
			for name := range out {
				out[name], _ = c[name].(string)
			}
			break
		}
	}
	return wrap(out, conditionShape, objectPart{}, nil)
}

// Conditions compiles the expressions of status.conditions, each the only one of its
// string. Expressions may read the instance, by the given name, and its conditions of the
// builtin types. If the expressions set a condition of a builtin type, they still read the
// builtin one, which theirs replaces.
func (e *Env) Conditions(sources []string, instance string, builtin []string, at object.Path) (*Conditions, diag.List) {
	env, conditionShape, err := e.withConditions()
	if err != nil {
		return nil, diag.List{{Path: at, Problem: err.Error()}}
	}
	c := conditionsCompiler{env: env, instance: instance, builtin: builtin, definedBy: map[string]object.Path{}}
	for i, source := range sources {
		c.compile(source, conditionShape.celType(), at.Index(i))
	}
	for _, lookup := range c.lookups {
		c.checkLookup(lookup)
	}
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	c.result.types, c.result.refs = slices.Sorted(maps.Keys(c.definedBy)), mergeRefs(c.result.refs)
	return &c.result, nil
}

type conditionsCompiler struct {
	env      *Env
	instance string
	builtin  []string
	result   Conditions
	problems diag.List
	// definedBy is the entry that sets each condition type. lookups are the reads of the
	// instance's own conditions.
	definedBy map[string]object.Path
	lookups   []conditionLookup
}

type conditionLookup struct {
	kind string
	diag.Diagnostic
}

func (c *conditionsCompiler) compile(source string, condition *cel.Type, at object.Path) {
	segments, err := Split(source)
	if err != nil || len(segments) != 1 || !segments[0].Expr {
		_, problems := c.env.CompileStandalone(source, condition, at)
		c.problems.Add(problems...)
		return
	}
	p, problems := c.env.compileExpression(segments[0].Text, at)
	c.problems.Add(problems...)
	if p == nil {
		return
	}
	if p.omits {
		c.problems.Add(p.omitProblem())
		return
	}
	if !p.typ.IsExactType(condition) && !p.typ.IsExactType(cel.ListType(condition)) {
		c.problems.Add(diag.Diagnostic{
			Path: at, Expr: p.source, Problem: "the expression is " + describe(p.typ), Expected: "a condition from runtime.newCondition, or a list of them",
		})
		return
	}
	c.result.entries, c.result.refs = append(c.result.entries, p.Program), append(c.result.refs, p.refs...)
	ast.PreOrderVisit(p.tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() == ast.CallKind {
			c.checkCall(p, x.AsCall())
		}
	}))
}

func (c *conditionsCompiler) checkCall(p *compiled, checkCall ast.CallExpr) {
	problem := func(x ast.Expr, text string) diag.Diagnostic {
		return diag.Diagnostic{Path: p.at, Expr: p.source, Offset: startOffset(p.tree, p.source, x), Problem: text}
	}
	args := checkCall.Args()
	switch checkCall.FunctionName() {
	case newCondition:
		kind, status := literalValue(args[0]), literalValue(args[1])
		if text := conditionProblem(kind, status); text != "" {
			c.problems.Add(problem(args[0], text))
		}
		name, known := kind.(string)
		if other, twice := c.definedBy[name]; known && twice && other != p.at {
			c.problems.Add(problem(args[0], fmt.Sprintf("the condition type %q is already set by %s", name, other)))
		}
		if known && c.definedBy[name] == "" {
			c.definedBy[name] = p.at
		}
	case readCondition:
		kind, known := literalValue(args[1]).(string)
		if args[0].Kind() == ast.IdentKind && args[0].AsIdent() == c.instance && known {
			c.lookups = append(c.lookups, conditionLookup{kind, problem(args[1], "")})
		}
	}
}

func literalValue(x ast.Expr) any {
	if x.Kind() != ast.LiteralKind {
		return nil
	}
	return x.AsLiteral().Value()
}

func (c *conditionsCompiler) checkLookup(l conditionLookup) {
	switch _, isDefined := c.definedBy[l.kind]; {
	case slices.Contains(c.builtin, l.kind):
		return
	case isDefined:
		l.Problem = fmt.Sprintf("%q is a condition of this definition's own; custom conditions cannot reference each other", l.kind)
	default:
		l.Problem = fmt.Sprintf("%s has no condition %q that can be read here", c.instance, l.kind)
		l.Expected, l.Nearest = strings.Join(c.builtin, ", "), diag.Nearest(l.kind, c.builtin)
	}
	c.problems.Add(l.Diagnostic)
}
