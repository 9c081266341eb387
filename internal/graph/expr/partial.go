package expr

import (
	"slices"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
	"github.com/espalier-dev/espalier/internal/object"
)

// RenderPartial renders the fields that have a value, for a status. It leaves out a field
// without a value, and an object without any remaining field unless it is written as {}.
// An item of a list without a value is null if a later item has one and removed otherwise;
// a list without any remaining item is left out unless it is written as []. It returns the
// fields without a value and the reasons. A field with an absent optional value is not
// among them.
//
// If keep is not nil, it may return a value for each such field, such as the last known
// one. The document is nil if no part of it has a value.
func (t *Template) RenderPartial(b *Budget, vars map[string]any, keep func(at []any, reason error) (any, bool)) (any, []Missing) {
	r := partialRenderer{budget: b, vars: vars, keep: keep}
	value, ok := r.render(t.root, nil)
	if !ok || value == Absent {
		value = nil
	}
	return value, r.missing
}

type partialRenderer struct {
	budget  *Budget // nil for none
	vars    map[string]any
	keep    func(at []any, reason error) (any, bool)
	missing []Missing
}

func (r *partialRenderer) render(p piece, path []any) (any, bool) {
	switch p := p.(type) {
	case objectPiece:
		out := make(map[string]any, len(p))
		omitted := false
		for _, f := range p {
			if value, ok := r.render(f.value, child(path, f.name)); !ok {
				omitted = true
			} else if value != Absent {
				out[f.name] = value
			}
		}
		return out, len(out) > 0 || !omitted
	case listPiece:
		return r.list(p, path)
	case *valuePiece:
		value, err := p.EvalWithin(r.budget, r.vars)
		return r.leaf(value, err, p.at, path)
	case *textPiece:
		value, err := p.evaluate(r.budget, r.vars)
		return r.leaf(value, err, p.path(), path)
	default:
		return plain.Copy(p), true
	}
}

// leaf is the value of an expression, or of a string with expressions, or the one that is kept.
func (r *partialRenderer) leaf(value any, err error, at object.Path, path []any) (any, bool) {
	if err == nil {
		return value, true
	}
	r.missing = append(r.missing, Missing{At: at, Err: err})
	if r.keep != nil {
		if kept, ok := r.keep(slices.Clone(path), err); ok {
			return plain.Copy(kept), true
		}
	}
	return nil, false
}

func (r *partialRenderer) list(p listPiece, path []any) (any, bool) {
	out := make([]any, 0, len(p))
	length, omitted := 0, false
	for i, item := range p {
		value, ok := r.render(item, child(path, i))
		switch {
		case !ok:
			omitted = true
			out = append(out, nil)
		case value != Absent:
			out = append(out, value)
			length = len(out)
		}
	}
	return out[:length:length], length > 0 || !omitted
}
