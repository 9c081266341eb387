package expr

import (
	"slices"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
)

// RenderPartial evaluates what can be evaluated, for a status. A field without a
// value is left out, and so is an object of which every field was left out; an
// object that is written as {} stays. An item of a list without a value is null
// if a later item has one and cut off otherwise, and a list without any is left
// out unless it is written as []. The fields without a value are returned, with
// the reason; an optional value that isn't there is no such field.
//
// A non-nil keep is asked for the value of each such field, such as the last one
// known, before it is left out. The document is nil if nothing of it is there.
func (t *Template) RenderPartial(vars map[string]any, keep func(at []any, reason error) (any, bool)) (any, []Missing) {
	r := partial{vars: vars, keep: keep}
	value, ok := r.render(&t.root, nil)
	if !ok || value == Absent {
		value = nil
	}
	return value, r.missing
}

type partial struct {
	vars    map[string]any
	keep    func(at []any, reason error) (any, bool)
	missing []Missing
}

func (r *partial) render(p *piece, path []any) (any, bool) {
	switch p.kind {
	case literal:
		return plain.Copy(p.literal), true
	case fields:
		out := make(map[string]any, len(p.fields))
		left := false
		for i := range p.fields {
			f := &p.fields[i]
			if value, ok := r.render(&f.value, child(path, f.name)); !ok {
				left = true
			} else if value != Absent {
				out[f.name] = value
			}
		}
		return out, len(out) > 0 || !left
	case list:
		return r.list(p, path)
	default: // an expression or a string that holds some
	}
	value, err := evaluate(p, r.vars)
	if err == nil {
		return value, true
	}
	r.missing = append(r.missing, Missing{At: p.where, Err: err})
	if r.keep != nil {
		if kept, ok := r.keep(slices.Clone(path), err); ok {
			return plain.Copy(kept), true
		}
	}
	return nil, false
}

func (r *partial) list(p *piece, path []any) (any, bool) {
	out := make([]any, 0, len(p.items))
	until, left := 0, false
	for i := range p.items {
		value, ok := r.render(&p.items[i], child(path, i))
		switch {
		case !ok:
			left = true
			out = append(out, nil)
		case value != Absent:
			out = append(out, value)
			until = len(out)
		}
	}
	return out[:until:until], until > 0 || !left
}
