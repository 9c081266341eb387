package expr

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	k8slibrary "k8s.io/apiserver/pkg/cel/library"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr/library"
	"github.com/espalier-dev/espalier/internal/object"
)

// Compile checks an expression, without its delimiters, that stands in the field
// at a path. It returns a program or else diagnostics.
func (e *Env) Compile(source string, at object.Path) (*Program, diag.List) {
	p, problems := e.compile(source, at)
	if p == nil {
		return nil, problems
	}
	return p.Program, nil
}

// compiled is a program with the tree that it was made from, which is a multiple
// of its size and needed only until the program's place has been checked.
type compiled struct {
	*Program
	tree *ast.AST
}

func (e *Env) compile(source string, at object.Path) (*compiled, diag.List) {
	if problems := e.beyond(source, at); problems != nil {
		return nil, problems
	}
	if strings.TrimSpace(source) == "" {
		return nil, diag.List{{Path: at, Problem: "an empty expression", Expected: `an expression between "${" and "}"`}}
	}
	parsed, issues := e.cel.Parse(source)
	if issues.Err() != nil {
		return nil, e.syntax(issues, source, at)
	}
	checked, issues := e.cel.Check(parsed)
	if issues.Err() != nil {
		return nil, e.explain(issues, parsed.NativeRep(), source, at)
	}
	return e.program(checked, source, at)
}

func (e *Env) program(checked *cel.Ast, source string, at object.Path) (*compiled, diag.List) {
	tree := checked.NativeRep()
	c := collector{declared: e.declares}
	c.visit(tree.Expr(), nil, nil)
	p := &Program{source: source, at: at, env: e, typ: checked.OutputType(), refs: union(c.refs), omits: calls(tree.Expr(), library.Omit)}
	if r, ok := c.chain(tree.Expr(), nil, nil); ok && direct(r) {
		p.chain = &r
		return &compiled{Program: p, tree: tree}, nil // planning it would take as long as all the rest
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if !cheap(tree.Expr()) {
		options = append(options, cel.CostLimit(e.limits.Cost), cel.CostTracking(&k8slibrary.CostEstimator{}))
	}
	prog, err := e.cel.Program(checked, options...)
	if err != nil {
		return nil, diag.List{{Path: at, Expr: source, Problem: err.Error()}}
	}
	p.prog = prog
	return &compiled{Program: p, tree: tree}, nil
}

func (e *Env) declares(name string) bool {
	_, ok := e.vars[name]
	return ok
}

// calls tells whether an expression calls a function.
func calls(e ast.Expr, function string) bool {
	found := false
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.CallKind && e.AsCall().FunctionName() == function
	}))
	return found
}

// direct tells whether a path can be followed without CEL.
func direct(r Ref) bool {
	for _, s := range r.Path {
		if s.Each || s.Optional {
			return false
		}
	}
	return true
}

// free are the calls whose cost doesn't depend on the size of their arguments.
var free = map[string]bool{
	operators.Conditional: true, operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true,
	operators.Index: true, operators.OptIndex: true, operators.OptSelect: true,
	"orValue": true, "hasValue": true, "value": true, "or": true,
}

// cheap tells whether an expression's cost is bounded by its length, so that it
// needn't be counted: counting doubles the time that such an expression takes.
func cheap(e ast.Expr) bool {
	bounded := true
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			bounded = false
		case ast.CallKind:
			bounded = bounded && free[e.AsCall().FunctionName()]
		default: // names, selections and literals are free
		}
	}))
	return bounded
}

// beyond returns the limit that an expression exceeds before it is even parsed.
func (e *Env) beyond(source string, at object.Path) diag.List {
	if n := len(source); n > e.limits.Length {
		return diag.List{{Path: at, Problem: fmt.Sprintf("an expression of %d bytes exceeds the limit Length of %d", n, e.limits.Length)}}
	}
	if depth, offset := nesting(source); depth > e.limits.Depth {
		return diag.List{{
			Path: at, Expr: source, Offset: offset,
			Problem: fmt.Sprintf("%d brackets inside each other exceed the limit Depth of %d", depth, e.limits.Depth),
		}}
	}
	return nil
}

// nesting returns how deep brackets are inside each other, and where.
func nesting(source string) (deepest, at int) {
	depth := 0
	for i := 0; i < len(source); i++ {
		switch source[i] {
		case '"', '\'':
			i = literalEnd(source, i) - 1
		case '(', '[', '{':
			if depth++; depth > deepest {
				deepest, at = depth, i
			}
		case ')', ']', '}':
			depth--
		}
	}
	return deepest, at
}

// syntax turns the parser's errors into diagnostics. The parser says the same
// thing of several places when it is confused; the first is the cause.
func (e *Env) syntax(issues *cel.Issues, source string, at object.Path) diag.List {
	first := issues.Errors()[0]
	for _, err := range issues.Errors() {
		if before(err.Location, first.Location) {
			first = err
		}
	}
	problem, _, _ := strings.Cut(strings.TrimPrefix(first.Message, "Syntax error: "), "\n")
	problem, _, _ = strings.Cut(problem, " expecting ") // a list of token names
	where := offset(source, first.Location)
	if strings.TrimSpace(source[where:]) == "" {
		problem = "the expression isn't complete"
	}
	return diag.List{{Path: at, Expr: source, Offset: where, Problem: problem}}
}

func before(a, b common.Location) bool {
	return a.Line() < b.Line() || a.Line() == b.Line() && a.Column() < b.Column()
}

// offset turns CEL's location, a line and a column of characters, into a byte.
func offset(source string, at common.Location) int {
	start := 0
	for range at.Line() - 1 {
		n := strings.IndexByte(source[start:], '\n')
		if n < 0 {
			break
		}
		start += n + 1
	}
	column := 0
	for i := range source[start:] {
		if column == at.Column() {
			return start + i
		}
		column++
	}
	return len(source)
}
