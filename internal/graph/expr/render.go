package expr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
)

// Render is RenderWithin without a budget.
func (t *Template) Render(vars map[string]any) (any, error) { return t.RenderWithin(nil, vars) }

// RenderWithin evaluates the whole template: it returns the document, or an error and no
// document. The error is the first error of EvalWithin other than *Pending, or *Mismatch, which
// waiting does not resolve; without any it is one *Pending with all missing paths. The document
// shares nothing with the template or the values.
func (t *Template) RenderWithin(b *Budget, vars map[string]any) (any, error) {
	if err := b.spendBytes(t.at, t.root.literalSize()); err != nil {
		return nil, err
	}
	r := renderer{vars: vars, budget: b}
	value := r.render(&t.root)
	if err := r.err(); err != nil {
		return nil, err
	}
	if value == Absent {
		return nil, nil
	}
	return value, nil
}

// literalSize is the approximate size of the values in a piece that are not computed.
func (p *piece) literalSize() (size int) {
	if p.kind == literal {
		return plain.Size(p.literal)
	}
	for i := range p.fields {
		size += p.fields[i].value.literalSize()
	}
	for i := range p.items {
		size += p.items[i].literalSize()
	}
	return size
}

type renderer struct {
	vars    map[string]any
	missing []Missing
	budget  *Budget     // nil for none
	size    *sizeBudget // nil for none
}

// render returns the value of a piece, or Absent.
func (r *renderer) render(p *piece) any {
	switch p.kind {
	case fields:
		out := make(map[string]any, len(p.fields))
		for i := range p.fields {
			if value := r.render(&p.fields[i].value); value != Absent {
				out[p.fields[i].name] = value
			}
		}
		return out
	case list:
		out := make([]any, 0, len(p.items))
		for i := range p.items {
			if value := r.render(&p.items[i]); value != Absent {
				out = append(out, value)
			}
		}
		return out
	case literal:
		return plain.Copy(p.literal)
	default:
		return r.leaf(p)
	}
}

func (r *renderer) leaf(p *piece) any {
	if r.size.isExhausted() {
		return Absent
	}
	value, err := evaluate(p, r.budget, r.vars)
	if err != nil {
		r.missing = append(r.missing, Missing{At: p.path, Err: err})
		return Absent
	}
	if m := checkValue(value, p.shape, p.path); m != nil {
		r.missing = append(r.missing, Missing{At: p.path, Err: m})
		return Absent
	}
	if !r.size.spend(p, value) {
		return Absent
	}
	return value
}

// evaluate returns the value of an expression or of a string with expressions.
func evaluate(p *piece, b *Budget, vars map[string]any) (any, error) {
	if p.kind == standalone {
		return p.prog.EvalWithin(b, vars)
	}
	var text strings.Builder
	var missing []Missing
	for _, part := range p.parts {
		if part.prog == nil {
			text.WriteString(part.text)
			continue
		}
		value, err := part.prog.EvalWithin(b, vars)
		if err != nil {
			missing = append(missing, Missing{At: p.path, Err: err})
			continue
		}
		s, ok := value.(string)
		if !ok {
			missing = append(missing, Missing{At: p.path, Err: part.prog.failure(notTextError(value))})
			continue
		}
		text.WriteString(s)
	}
	if err := joinMissing(missing); err != nil {
		return nil, err
	}
	return text.String(), nil
}

func notTextError(value any) error {
	if value == nil || value == Absent {
		return errors.New("the result is null, inside a string")
	}
	return fmt.Errorf("the result is %s, inside a string; use string(…)", literalName(value))
}

func (r *renderer) err() error { return joinMissing(r.missing) }

// joinMissing joins the reasons of several fields into one error.
func joinMissing(missing []Missing) error {
	if len(missing) == 0 {
		return nil
	}
	out := &Pending{}
	for _, m := range missing {
		var pending *Pending
		if !errors.As(m.Err, &pending) {
			return m.Err
		}
		out.Refs = append(out.Refs, pending.Refs...)
	}
	out.Refs, out.Fields = mergeRefs(out.Refs), missing
	return out
}
