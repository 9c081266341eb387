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

// Condition is what an author says in one condition of a status.
type Condition struct{ Type, Status, Reason, Message string }

// Conditions are expressions for conditions: each gives one, or a list of them, made
// with runtime.newCondition. They are immutable and safe for concurrent use.
type Conditions struct {
	entries []*Program
	types   []string
	refs    []Ref
}

// Types lists, sorted, the types that the expressions name outright.
func (c *Conditions) Types() []string { return c.types }

// Refs returns the paths that the expressions read, sorted.
func (c *Conditions) Refs() []Ref { return c.refs }

// Eval evaluates the expressions in order. What has no value is told by its reason: a
// *Pending, a *Failure or a *LimitExceeded.
func (c *Conditions) Eval(vars map[string]any) (found []Condition, missing []error) {
	for _, p := range c.entries {
		value, err := p.Eval(vars)
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
	newCondition  = "@runtime.newCondition" // what the macro makes
	readCondition = "runtime.condition"
)

var (
	conditionKeys     = []string{"type", "status", "reason", "message"}
	conditionStatuses = []string{"True", "False", "Unknown"}
	conditionSchema   = &spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{
		"type": *spec.StringProperty(), "status": *spec.StringProperty(), "reason": *spec.StringProperty(), "message": *spec.StringProperty(),
	}}}
)

// withConditions returns an environment that knows runtime.newCondition and
// runtime.condition, and the shape of what they give.
func (e *Env) withConditions() (*Env, *shape, error) {
	made := e.shapes.of(conditionSchema, "condition")
	text := cel.StringType
	extended, err := e.cel.Extend(
		cel.Macros(cel.ReceiverMacro("newCondition", 1, expandNewCondition)),
		cel.Function(newCondition, cel.Overload("runtime_new_condition", []*cel.Type{text, text, text, text}, made.celType(),
			cel.FunctionBinding(func(args ...ref.Val) ref.Val { return makeCondition(made, args) }))),
		cel.Function(readCondition, cel.Overload("runtime_condition", []*cel.Type{cel.DynType, text}, made.celType(),
			cel.BinaryBinding(func(o, kind ref.Val) ref.Val { return findCondition(made, o, kind) }))),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("the expressions of conditions: %w", err)
	}
	return &Env{cel: extended, bare: e.bare, limits: e.limits, shapes: e.shapes, vars: e.vars, lacks: e.lacks}, made, nil
}

// expandNewCondition makes the fields of a condition arguments, each checked by itself.
// Their names needn't be in quotes.
func expandNewCondition(eh cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
	if target.Kind() != ast.IdentKind || target.AsIdent() != "runtime" {
		return nil, nil
	}
	if args[0].Kind() != ast.MapKind {
		return nil, eh.NewError(args[0].ID(), "runtime.newCondition takes a map of type, status, reason and message")
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
		default: // it isn't the name of a field
		}
		if !slices.Contains(conditionKeys, name) {
			return nil, eh.NewError(e.ID(), fmt.Sprintf("unknown key %q: a condition has type, status, reason and message", name))
		}
		if fields[name] != nil {
			return nil, eh.NewError(e.ID(), "the field "+name+" is there already")
		}
		fields[name] = entry.Value()
	}
	call := make([]ast.Expr, len(conditionKeys))
	for i, name := range conditionKeys {
		call[i] = fields[name]
		if call[i] == nil && i < 2 {
			return nil, eh.NewError(args[0].ID(), "a condition needs a "+name)
		}
		if call[i] == nil {
			call[i] = eh.NewLiteral(types.String(""))
		}
	}
	return eh.NewCall(newCondition, call...), nil
}

func makeCondition(made *shape, args []ref.Val) ref.Val {
	m := map[string]any{}
	for i, name := range conditionKeys {
		text, ok := args[i].(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(args[i])
		}
		m[name] = string(text)
	}
	if problem := wrongCondition(m["type"], m["status"]); problem != "" {
		return types.WrapErr(errors.New(problem))
	}
	return wrap(m, made, nil)
}

// wrongCondition says what is wrong with a condition's type or status, as far as they
// are known.
func wrongCondition(kind, status any) string {
	text, known := status.(string)
	switch {
	case kind == "":
		return "the type of a condition is empty"
	case known && !slices.Contains(conditionStatuses, text):
		return fmt.Sprintf("the status of a condition is %q; a status must be one of True, False or Unknown", text)
	}
	return ""
}

// findCondition looks a condition up; one that isn't there is empty.
func findCondition(made *shape, o, kind ref.Val) ref.Val {
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
	return wrap(out, made, nil)
}

// Conditions compiles expressions for conditions, each alone in its string. Of the
// instance, which is read under the given name, the conditions of builtin types can be
// looked up, also where the expressions make one of that type themselves: what is looked
// up is what the expressions take the place of.
func (e *Env) Conditions(sources []string, instance string, builtin []string, at object.Path) (*Conditions, diag.List) {
	env, made, err := e.withConditions()
	if err != nil {
		return nil, diag.List{{Path: at, Problem: err.Error()}}
	}
	c := conditions{env: env, instance: instance, builtin: builtin, made: map[string]object.Path{}}
	for i, source := range sources {
		c.compile(source, made.celType(), at.Index(i))
	}
	for _, look := range c.looks {
		c.checkLook(look)
	}
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	c.out.types, c.out.refs = slices.Sorted(maps.Keys(c.made)), union(c.out.refs)
	return &c.out, nil
}

type conditions struct {
	env      *Env
	instance string
	builtin  []string
	out      Conditions
	problems diag.List
	// made says which entry makes a condition of a type; looks are the look-ups of the
	// instance's own conditions.
	made  map[string]object.Path
	looks []look
}

type look struct {
	kind string
	diag.Diagnostic
}

func (c *conditions) compile(source string, condition *cel.Type, at object.Path) {
	segments, err := Split(source)
	if err != nil || len(segments) != 1 || !segments[0].Expr {
		_, problems := c.env.Only(source, condition, at)
		c.problems.Add(problems...)
		return
	}
	p, problems := c.env.compile(segments[0].Text, at)
	c.problems.Add(problems...)
	if p == nil {
		return
	}
	if p.omits {
		c.problems.Add(p.omission())
		return
	}
	if !p.typ.IsExactType(condition) && !p.typ.IsExactType(cel.ListType(condition)) {
		c.problems.Add(diag.Diagnostic{
			Path: at, Expr: p.source, Problem: "the expression is " + describe(p.typ), Expected: "what runtime.newCondition gives, or a list of that",
		})
		return
	}
	c.out.entries, c.out.refs = append(c.out.entries, p.Program), append(c.out.refs, p.refs...)
	ast.PreOrderVisit(p.tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() == ast.CallKind {
			c.call(p, x.AsCall())
		}
	}))
}

// call checks what is known of a condition before it is evaluated.
func (c *conditions) call(p *compiled, call ast.CallExpr) {
	problem := func(x ast.Expr, text string) diag.Diagnostic {
		return diag.Diagnostic{Path: p.at, Expr: p.source, Offset: location(p.tree, p.source, x), Problem: text}
	}
	args := call.Args()
	switch call.FunctionName() {
	case newCondition:
		kind, status := literalOf(args[0]), literalOf(args[1])
		if text := wrongCondition(kind, status); text != "" {
			c.problems.Add(problem(args[0], text))
		}
		name, known := kind.(string)
		if other, twice := c.made[name]; known && twice && other != p.at {
			c.problems.Add(problem(args[0], fmt.Sprintf("a condition of type %q is made by %s already", name, other)))
		}
		if known && c.made[name] == "" {
			c.made[name] = p.at
		}
	case readCondition:
		kind, known := literalOf(args[1]).(string)
		if args[0].Kind() == ast.IdentKind && args[0].AsIdent() == c.instance && known {
			c.looks = append(c.looks, look{kind, problem(args[1], "")})
		}
	}
}

func literalOf(x ast.Expr) any {
	if x.Kind() != ast.LiteralKind {
		return nil
	}
	return x.AsLiteral().Value()
}

func (c *conditions) checkLook(l look) {
	switch _, own := c.made[l.kind]; {
	case slices.Contains(c.builtin, l.kind):
		return
	case own:
		l.Problem = fmt.Sprintf("%q is a condition of this definition's own; custom conditions cannot reference each other", l.kind)
	default:
		l.Problem = fmt.Sprintf("%s has no condition %q that could be read here", c.instance, l.kind)
		l.Expected, l.Nearest = strings.Join(c.builtin, ", "), diag.Nearest(l.kind, c.builtin)
	}
	c.problems.Add(l.Diagnostic)
}
