package expr

import (
	"github.com/google/cel-go/cel"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
	"github.com/espalier-dev/espalier/internal/object"
)

// TooLarge is the error of a document that exceeds its size limit.
type TooLarge struct {
	// At is the field that exceeded the limit.
	At object.Path
}

func (t *TooLarge) Error() string { return pathPrefix(t.At) + "the result is too large" }

// RenderWithLimit is RenderWithin with a limit on the approximate bytes of the document. It
// returns the bytes used, a *TooLarge error if the document exceeds the limit, and Absent
// for a document that consists of an absent optional value. Only this limit bounds
// variables that contain other variables.
func (t *Template) RenderWithLimit(b *Budget, vars map[string]any, size int) (value any, used int, err error) {
	r := renderer{vars: vars, budget: b, size: &sizeBudget{remaining: size}}
	value = r.render(t.root)
	if isLiteral(t.root) {
		r.size.spend(t.at, value)
	}
	if r.size.err != nil {
		return nil, 0, r.size.err
	}
	if err := r.err(); err != nil {
		return nil, 0, err
	}
	return value, size - r.size.remaining, nil
}

// sizeBudget counts the bytes that may still be rendered; a nil budget has no limit.
type sizeBudget struct {
	remaining int
	err       error
}

// spend reports whether the value fits.
func (b *sizeBudget) spend(at object.Path, value any) bool {
	if b == nil {
		return true
	}
	if b.remaining -= plain.Size(value); b.remaining < 0 && b.err == nil {
		b.err = &TooLarge{At: at}
	}
	return b.err == nil
}

// isExhausted reports whether the limit is exceeded: then rendering can stop.
func (b *sizeBudget) isExhausted() bool { return b != nil && b.err != nil }

// RequireValue returns a diagnostic if the template is a single expression that may be
// absent, for places that need a value.
func (t *Template) RequireValue() diag.List {
	p, isValue := t.root.(*valuePiece)
	if !isValue {
		return nil
	}
	_, optional := unwrapped(p.typ)
	switch built := p.typ.Kind(); {
	case optional:
		return diag.List{{Path: p.at, Expr: p.source, Problem: "the expression is " + describe(p.typ), Expected: "a value" + interpolationHint(p.typ)}}
	case p.omits && built != cel.MapKind && built != cel.ListKind:
		return diag.List{p.omitProblem()}
	}
	return nil
}
