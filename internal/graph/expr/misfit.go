package expr

import (
	"encoding/base64"
	"slices"

	"github.com/google/cel-go/cel"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
	"github.com/espalier-dev/espalier/internal/object"
)

// Mismatch is the error of a computed value that the schema of its field refuses. An API
// server would refuse it too, some with no reason that tells this from a failure of its
// own. Its text doesn't repeat the value.
type Mismatch struct {
	// At is the field of the template, and Where the part of its value that is wrong: it may
	// hold keys of a computed map.
	At, Where object.Path
	// Problem says what is wrong, and Expected what would be right.
	Problem, Expected string
}

func (m *Mismatch) Error() string { return m.text(m.Where) }

// Redacted is the error without what was computed of its path.
func (m *Mismatch) Redacted() string { return m.text(m.At) }

func (m *Mismatch) text(where object.Path) string {
	return at(where) + m.Problem + "; expected " + m.Expected
}

// unproven returns the shape that a result has to be compared with; nil where the type of
// the expression proves that it fits.
func (p *Program) unproven(s *shape) *shape {
	t := p.typ
	if inner, ok := unwrapped(t); ok {
		t = inner
	}
	switch s.kindOf() {
	case ofAnything:
		return nil
	case ofBytes:
		if t.Kind() == cel.BytesKind {
			return nil
		}
	case ofObject, ofMap, ofList:
	default:
		if t.Kind() != cel.DynKind && t.Kind() != cel.AnyKind {
			return nil
		}
	}
	return s
}

// check compares a computed value with the shape of its field.
func check(v any, s *shape, at object.Path) *Mismatch {
	if v == plain.Absent {
		return nil
	}
	wrong := misfit(v, s)
	if wrong == nil {
		return nil
	}
	where := at
	for _, step := range slices.Backward(wrong.steps) {
		switch step := step.(type) {
		case string:
			where = where.Field(step)
		case int:
			where = where.Index(step)
		}
	}
	return &Mismatch{At: at, Where: where, Problem: wrong.problem, Expected: wrong.expected}
}

// wrong is what is wrong with a part of a value. The steps that lead there are in reverse: a
// value that fits, as nearly all do, costs no paths.
type wrong struct {
	problem, expected string
	steps             []any
}

func (w *wrong) in(step any) *wrong {
	w.steps = append(w.steps, step)
	return w
}

// misfit finds what is wrong with a value: of several problems the one that comes first.
func misfit(v any, s *shape) *wrong {
	k := s.kindOf()
	if v == nil || k == ofAnything {
		return nil
	}
	fits := false
	switch v := v.(type) {
	case map[string]any:
		if k == ofObject || k == ofMap {
			return misfitEntry(v, s)
		}
	case []any:
		if k == ofList {
			return misfitItem(v, s.elem)
		}
	case string:
		if k == ofBytes && !isBase64(v) {
			return &wrong{problem: notBase64, expected: base64Text}
		}
		fits = literalFits(v, k)
	default:
		fits = literalFits(v, k)
	}
	if fits {
		return nil
	}
	return &wrong{problem: "the value is " + literalName(v), expected: expectation(s)}
}

func misfitItem(v []any, elem *shape) *wrong {
	for i, item := range v {
		if w := misfit(item, elem); w != nil {
			return w.in(i)
		}
	}
	return nil
}

// misfitEntry finds, of the entries that don't fit, the one whose key sorts first. Fields
// that the schema doesn't have are the API server's to judge: it may prune them.
func misfitEntry(v map[string]any, s *shape) *wrong {
	var found *wrong
	first := ""
	for key, value := range v {
		if found != nil && key > first {
			continue
		}
		if below, ok := s.field(key); ok {
			if w := misfit(value, below); w != nil {
				found, first = w, key
			}
		}
	}
	if found == nil {
		return nil
	}
	return found.in(first)
}

// How a text that isn't base64 is told: it may be a secret, and isn't repeated.
const (
	notBase64  = "the value is not base64"
	base64Text = `base64, as bytes("text") gives it; in a Secret, plain text belongs into stringData`
)

// isBase64 says whether a text is base64 as JSON encodes bytes; line breaks are ignored.
func isBase64(text string) bool {
	_, err := base64.StdEncoding.DecodeString(text)
	return err == nil
}
