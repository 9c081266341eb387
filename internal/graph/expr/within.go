package expr

import (
	"github.com/google/cel-go/cel"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
	"github.com/espalier-dev/espalier/internal/object"
)

// TooLarge is the error of a document that doesn't fit.
type TooLarge struct {
	// At is the field that was one too many.
	At object.Path
}

func (t *TooLarge) Error() string { return at(t.At) + "the result is too large" }

// RenderWithin is Render for a document of at most so many bytes, counted roughly; a
// *TooLarge is an error of it as well. It returns how many there are, and Absent for a
// document that is one optional value which isn't there. A value that others read, and
// they again, can grow without anything else that would bound it.
func (t *Template) RenderWithin(vars map[string]any, size int) (value any, used int, err error) {
	r := renderer{vars: vars, bound: &bound{left: size}}
	value = r.render(&t.root)
	if t.root.kind == literal {
		r.bound.take(&t.root, value)
	}
	if r.bound.err != nil {
		return nil, 0, r.bound.err
	}
	if err := r.err(); err != nil {
		return nil, 0, err
	}
	return value, size - r.bound.left, nil
}

// bound counts down what may still be rendered; a nil one lets everything pass.
type bound struct {
	left int
	err  error
}

// take counts a value and reports whether it fits.
func (b *bound) take(p *piece, value any) bool {
	if b == nil {
		return true
	}
	if b.left -= plain.Size(value); b.left < 0 && b.err == nil {
		b.err = &TooLarge{At: p.where}
	}
	return b.err == nil
}

// spent says that there is no use in rendering more.
func (b *bound) spent() bool { return b != nil && b.err != nil }

// Valueless is the problem of a template that is one expression which may give nothing,
// where something is needed.
func (t *Template) Valueless() diag.List {
	p := &t.root
	if p.kind != standalone {
		return nil
	}
	_, optional := unwrapped(p.prog.typ)
	switch built := p.prog.typ.Kind(); {
	case optional:
		return diag.List{{Path: p.where, Expr: p.prog.source, Problem: "the expression is " + describe(p.prog.typ), Expected: "a value" + join(p.prog.typ)}}
	case p.prog.omits && built != cel.MapKind && built != cel.ListKind:
		return diag.List{p.prog.omission()}
	}
	return nil
}
