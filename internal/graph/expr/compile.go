package expr

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr/library"
	"github.com/espalier-dev/espalier/internal/object"
)

// Compile checks an expression, without its delimiters, of the field at a path. It returns
// either a program or diagnostics.
func (e *Env) Compile(source string, at object.Path) (*Program, diag.List) {
	p, problems := e.compileExpression(source, at)
	if p == nil {
		return nil, problems
	}
	return p.Program, nil
}

// compiled is a program with its syntax tree, which is several times as large as the
// program and needed only until the program is checked against its field.
type compiled struct {
	*Program
	tree *ast.AST
}

func (e *Env) compileExpression(source string, at object.Path) (*compiled, diag.List) {
	if problems := e.checkLimits(source, at); problems != nil {
		return nil, problems
	}
	if strings.TrimSpace(source) == "" {
		return nil, diag.List{{Path: at, Problem: "an empty expression", Expected: `an expression between "${" and "}"`}}
	}
	parsed, issues := e.parse(e.cel, source)
	if issues.Err() != nil {
		return nil, e.syntaxDiagnostics(issues, source, at)
	}
	checked, issues := e.cel.Check(parsed)
	if issues.Err() != nil {
		return nil, e.typeDiagnostics(issues, parsed.NativeRep(), source, at)
	}
	return e.newProgram(checked, source, at)
}

func (e *Env) newProgram(checked *cel.Ast, source string, at object.Path) (*compiled, diag.List) {
	tree := checked.NativeRep()
	if isMoving(checked.OutputType()) {
		return nil, diag.List{{Path: at, Expr: source, Problem: "the result changes at every moment",
			Expected: "a comparison, such as time.now() > timestamp(schema.spec.until)"}}
	}
	if e.limits.NoTime && readsTime(tree.Expr()) {
		return nil, diag.List{{Path: at, Expr: source, Problem: "time.now() is not available here: the result must not change with time alone"}}
	}
	if problems := e.progressProblems(tree, source, at); problems != nil {
		return nil, problems
	}
	c := &collector{isDeclared: e.declares}
	c.visit(tree.Expr(), nil, nil)
	p := &Program{source: source, at: at, scope: e.Scope, typ: checked.OutputType(), refs: mergeRefs(c.refs), omits: callsFunction(tree.Expr(), library.Omit)}
	if r, ok := c.pathOf(tree.Expr(), nil, nil); ok && isPlainPath(r) {
		p.isPath = true
		return &compiled{Program: p, tree: tree}, nil // a CEL program would double the time of compilation
	}
	limit := e.limits.Cost
	if hasBoundedCost(tree.Expr()) {
		limit = 0
	}
	var err error
	if p.program, err = programOf(e.planner, tree, limit, c.decorate); err != nil {
		return nil, diag.List{{Path: at, Expr: source, Problem: err.Error()}}
	}
	return &compiled{Program: p, tree: tree}, nil
}

func callsFunction(e ast.Expr, function string) bool {
	found := false
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.CallKind && e.AsCall().FunctionName() == function
	}))
	return found
}

func readsTime(e ast.Expr) bool {
	found := false
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) { found = found || e.Kind() == ast.IdentKind && e.AsIdent() == nowVariable }))
	return found
}

// isPlainPath reports whether a path can be followed without CEL.
func isPlainPath(r Ref) bool {
	for _, s := range r.Path {
		if s.Each || s.Optional {
			return false
		}
	}
	return true
}

var constantCostCalls = map[string]bool{
	operators.Conditional: true, operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true,
	operators.Index: true, operators.OptIndex: true, operators.OptSelect: true,
	"orValue": true, "hasValue": true, "value": true, "or": true,
}

// hasBoundedCost reports whether an expression's cost is bounded by its length, so it need not be tracked: tracking
// doubles the evaluation time of such an expression.
func hasBoundedCost(e ast.Expr) bool {
	bounded := true
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			bounded = false
		case ast.CallKind:
			bounded = bounded && constantCostCalls[e.AsCall().FunctionName()]
		default: // names, selections and literals have a constant cost
		}
	}))
	return bounded
}

// checkLimits reports the limit that an expression exceeds, before it is parsed.
func (e *Env) checkLimits(source string, at object.Path) diag.List {
	if n := len(source); n > e.limits.Length {
		return diag.List{{Path: at, Problem: fmt.Sprintf("an expression of %d bytes exceeds the limit Length of %d", n, e.limits.Length)}}
	}
	if depth, offset := bracketDepth(source); depth > e.limits.Depth {
		return diag.List{{
			Path: at, Expr: source, Offset: offset,
			Problem: fmt.Sprintf("%d nested brackets exceed the limit Depth of %d", depth, e.limits.Depth),
		}}
	}
	return nil
}

// bracketDepth also returns the offset of the deepest bracket.
func bracketDepth(source string) (deepest, at int) {
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

// syntaxDiagnostics turns the parser's errors into a diagnostic. One mistake may give
// several errors; the first one is its cause.
func (e *Env) syntaxDiagnostics(issues *cel.Issues, source string, at object.Path) diag.List {
	first := issues.Errors()[0]
	for _, err := range issues.Errors() {
		if isBefore(err.Location, first.Location) {
			first = err
		}
	}
	problem, _, _ := strings.Cut(strings.TrimPrefix(first.Message, "Syntax error: "), "\n")
	problem, _, _ = strings.Cut(problem, " expecting ") // a list of token names
	where := byteOffset(source, first.Location)
	if strings.TrimSpace(source[where:]) == "" {
		problem = "the expression is incomplete"
	}
	return diag.List{{Path: at, Expr: source, Offset: where, Problem: problem}}
}

func isBefore(a, b common.Location) bool {
	return a.Line() < b.Line() || a.Line() == b.Line() && a.Column() < b.Column()
}

// byteOffset converts a CEL location, a line and a column in characters, into bytes.
func byteOffset(source string, at common.Location) int {
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
