package expr

import (
	"github.com/google/cel-go/cel"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Only compiles a text that must be one expression, delimiters included, and
// nothing else, as the conditions of a node are. The result must be of the given
// kind of type, optional or not; what has no type is accepted and shows its type
// when it is evaluated.
func (e *Env) Only(text string, want *cel.Type, at object.Path) (*Program, diag.List) {
	segments, err := Split(text)
	if err != nil {
		return nil, diag.List{{Path: at, Expr: err.Text, Problem: err.Problem}}
	}
	if len(segments) != 1 || !segments[0].Expr {
		return nil, diag.List{{
			Path: at, Problem: "the text isn't one expression", Expected: `"${", an expression and "}", without a newline at the end`,
		}}
	}
	p, problems := e.Compile(segments[0].Text, at)
	if p != nil && p.omits {
		return nil, diag.List{p.omission()}
	}
	if p == nil || accepts(want, p.typ) {
		return p, problems
	}
	return nil, diag.List{{
		Path: at, Expr: p.source, Problem: "the expression is " + describe(p.typ), Expected: describe(want),
	}}
}

// omission is the problem of an expression that calls omit() where there is no field to
// leave out.
func (p *Program) omission() diag.Diagnostic {
	return diag.Diagnostic{Path: p.at, Expr: p.source, Problem: "omit() leaves out a field of a template, and has no meaning here"}
}

// Omissions are the problems of a document that isn't a template, such as a status,
// whose expressions call omit().
func (t *Template) Omissions() diag.List {
	var out diag.List
	for _, x := range t.expressions {
		if x.Program.omits {
			out.Add(x.Program.omission())
		}
	}
	return out
}

func accepts(want, got *cel.Type) bool {
	if inner, ok := unwrapped(got); ok {
		got = inner
	}
	return got.Kind() == cel.DynKind || got.Kind() == cel.AnyKind || got.Kind() == want.Kind()
}
