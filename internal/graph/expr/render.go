package expr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
)

// Render evaluates the template as a whole: it returns the document, or an error
// and no document. The error is a *Failure, a *LimitExceeded or a *Misfit if there is one,
// since waiting doesn't heal it, and otherwise one *Pending for all that is
// missing. The document shares nothing with the template or the values.
func (t *Template) Render(vars map[string]any) (any, error) {
	r := renderer{vars: vars}
	value := r.render(&t.root)
	if err := r.err(); err != nil {
		return nil, err
	}
	if value == Absent {
		return nil, nil
	}
	return value, nil
}

type renderer struct {
	vars    map[string]any
	missing []Missing
	bound   *bound // nil for none
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
	if r.bound.spent() {
		return Absent
	}
	value, err := evaluate(p, r.vars)
	if err != nil {
		r.missing = append(r.missing, Missing{At: p.where, Err: err})
		return Absent
	}
	if m := check(value, p.check, p.where); m != nil {
		r.missing = append(r.missing, Missing{At: p.where, Err: m})
		return Absent
	}
	if !r.bound.take(p, value) {
		return Absent
	}
	return value
}

// evaluate returns the value of an expression or of a string that holds some.
func evaluate(p *piece, vars map[string]any) (any, error) {
	if p.kind == standalone {
		return p.prog.Eval(vars)
	}
	var text strings.Builder
	var missing []Missing
	for _, part := range p.parts {
		if part.prog == nil {
			text.WriteString(part.text)
			continue
		}
		value, err := part.prog.Eval(vars)
		if err != nil {
			missing = append(missing, Missing{At: p.where, Err: err})
			continue
		}
		s, ok := value.(string)
		if !ok {
			missing = append(missing, Missing{At: p.where, Err: part.prog.failure(notText(value))})
			continue
		}
		text.WriteString(s)
	}
	if err := summary(missing); err != nil {
		return nil, err
	}
	return text.String(), nil
}

func notText(value any) error {
	if value == nil || value == Absent {
		return errors.New("the result is null, inside a string")
	}
	return fmt.Errorf("the result is %s, inside a string; use string(…)", literalName(value))
}

func (r *renderer) err() error { return summary(r.missing) }

// summary joins the reasons of several fields into one.
func summary(missing []Missing) error {
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
	out.Refs, out.Fields = union(out.Refs), missing
	return out
}
