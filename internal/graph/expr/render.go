package expr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
	"github.com/espalier-dev/espalier/internal/object"
)

// Render is RenderWithin without a budget.
func (t *Template) Render(vars map[string]any) (any, error) { return t.RenderWithin(nil, vars) }

// RenderWithin evaluates the whole template: it returns the document, or an error and no
// document. The error is the first *NeedsSkipped; without any the first error of EvalWithin other than *Pending,
// or *Mismatch, which waiting does not resolve; without any it is one *Pending with all missing paths. The document
// shares nothing with the template or the values.
func (t *Template) RenderWithin(b *Budget, vars map[string]any) (any, error) {
	if err := b.spendBytes(t.at, literalSize(t.root)); err != nil {
		return nil, err
	}
	r := renderer{vars: vars, budget: b}
	value := r.render(t.root)
	if err := r.err(); err != nil {
		return nil, err
	}
	if value == Absent {
		return nil, nil
	}
	return value, nil
}

// literalSize is the approximate size of the values in a piece that are not computed.
func literalSize(p piece) (size int) {
	switch p := p.(type) {
	case objectPiece:
		for _, f := range p {
			size += literalSize(f.value)
		}
		return size
	case listPiece:
		for _, item := range p {
			size += literalSize(item)
		}
		return size
	case *valuePiece, *textPiece:
		return 0
	default:
		return plain.Size(p)
	}
}

type renderer struct {
	vars    map[string]any
	missing []Missing
	budget  *Budget     // nil for none
	size    *sizeBudget // nil for none
}

// render returns the value of a piece, or Absent.
func (r *renderer) render(p piece) any {
	switch p := p.(type) {
	case objectPiece:
		out := make(map[string]any, len(p))
		for _, f := range p {
			if value := r.render(f.value); value != Absent {
				out[f.name] = value
			}
		}
		return out
	case listPiece:
		out := make([]any, 0, len(p))
		for _, item := range p {
			if value := r.render(item); value != Absent {
				out = append(out, value)
			}
		}
		return out
	case *valuePiece:
		if r.size.isExhausted() {
			return Absent
		}
		value, err := p.EvalWithin(r.budget, r.vars)
		return r.leaf(value, err, p.shape, p.at)
	case *textPiece:
		if r.size.isExhausted() {
			return Absent
		}
		value, err := p.evaluate(r.budget, r.vars)
		return r.leaf(value, err, p.shape, p.path())
	default:
		return plain.Copy(p)
	}
}

// leaf is the value of an expression, or of a string with expressions, if it fits the field.
func (r *renderer) leaf(value any, err error, s *shape, at object.Path) any {
	if err != nil {
		r.missing = append(r.missing, Missing{At: at, Err: err})
		return Absent
	}
	if m := checkValue(value, s, at); m != nil {
		r.missing = append(r.missing, Missing{At: at, Err: m})
		return Absent
	}
	if !r.size.spend(at, value) {
		return Absent
	}
	return value
}

func (p *textPiece) evaluate(b *Budget, vars map[string]any) (any, error) {
	var text strings.Builder
	var missing []Missing
	for _, part := range p.parts {
		if part.prog == nil {
			text.WriteString(part.text)
			continue
		}
		value, err := part.prog.EvalWithin(b, vars)
		if err != nil {
			missing = append(missing, Missing{At: part.prog.at, Err: err})
			continue
		}
		s, ok := value.(string)
		if !ok {
			missing = append(missing, Missing{At: part.prog.at, Err: part.prog.failure(notTextError(value))})
			continue
		}
		text.WriteString(s)
	}
	if err := joinMissing(missing); err != nil {
		return nil, err
	}
	return text.String(), nil
}

// notText is the reason why a value is not part of a string. It does not contain the value.
type notText string

func (n notText) Error() string { return string(n) }

func notTextError(value any) error {
	if value == nil || value == Absent {
		return notText("the result is null, inside a string")
	}
	return notText(fmt.Sprintf("the result is %s, inside a string; use string(…)", literalName(value)))
}

func (r *renderer) err() error { return joinMissing(r.missing) }

func joinMissing(missing []Missing) error {
	if len(missing) == 0 {
		return nil
	}
	out := &Pending{}
	for _, m := range missing {
		if needs := needsSkipped(m.Err); needs != nil {
			return needs
		}
	}
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
