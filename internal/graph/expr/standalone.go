package expr

import (
	"github.com/google/cel-go/cel"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// CompileStandalone compiles a text that must be a single expression with its delimiters,
// such as a condition of a node. The result must have the wanted kind of type, optional or
// not. An untyped expression is accepted: its type shows only in evaluation.
func (e *Env) CompileStandalone(text string, want *cel.Type, at object.Path) (*Program, diag.List) {
	segments, err := Split(text)
	if err != nil {
		return nil, diag.List{{Path: at, Expr: err.Text, Problem: err.Problem}}
	}
	if len(segments) != 1 || !segments[0].Expr {
		return nil, diag.List{{
			Path: at, Problem: "the text is not a single expression", Expected: `"${", an expression and "}", without a trailing newline`,
		}}
	}
	p, problems := e.Compile(segments[0].Text, at)
	if p != nil && p.omits {
		return nil, diag.List{p.omitProblem()}
	}
	if p == nil || acceptsType(want, p.typ) {
		return p, problems
	}
	return nil, diag.List{{
		Path: at, Expr: p.source, Problem: "the expression is " + describe(p.typ), Expected: describe(want),
	}}
}

// omitProblem is the diagnostic of an expression that calls omit() where there is no field
// to leave out.
func (p *Program) omitProblem() diag.Diagnostic {
	return diag.Diagnostic{Path: p.at, Expr: p.source, Problem: "omit() omits a field of a template and cannot be used here"}
}

// ForbidOmit returns a diagnostic for each expression that calls omit(), for documents that
// are not templates of objects, such as a status.
func (t *Template) ForbidOmit() diag.List {
	var out diag.List
	for _, x := range t.Expressions() {
		if x.Program.omits {
			out.Add(x.Program.omitProblem())
		}
	}
	return out
}

func acceptsType(want, got *cel.Type) bool {
	if inner, ok := unwrapped(got); ok {
		got = inner
	}
	return got.Kind() == cel.DynKind || got.Kind() == cel.AnyKind || got.Kind() == want.Kind()
}
