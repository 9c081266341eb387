package expr

import (
	"encoding/base64"
	"slices"

	"github.com/google/cel-go/cel"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
	"github.com/espalier-dev/espalier/internal/object"
)

// Mismatch is the error of a computed value that does not fit the schema of its field. The
// API server would refuse the value too, sometimes with an error that looks like a failure
// of the server. The error text does not contain the value.
type Mismatch struct {
	// At is the field of the template. Where is the part of its value that does not fit; it
	// may contain keys of a computed map.
	At, Where object.Path
	// Problem describes the value, and Expected the values that would fit.
	Problem, Expected string
}

func (m *Mismatch) Error() string { return m.text(m.Where) }

// Redacted is the error text with At in place of Where, without computed keys.
func (m *Mismatch) Redacted() string { return m.text(m.At) }

func (m *Mismatch) text(where object.Path) string {
	return pathPrefix(where) + m.Problem + "; expected " + m.Expected
}

// uncheckedShape returns the shape that each result must be compared with; nil if the type
// of the expression proves that it fits.
func (p *Program) uncheckedShape(s *shape) *shape {
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

// checkValue returns nil if the value fits.
func checkValue(v any, s *shape, at object.Path) *Mismatch {
	if v == plain.Absent {
		return nil
	}
	wrong := validate(v, s)
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

// valueProblem says why a part of a value does not fit. The steps to the part are in
// reverse order: no path is built for values that fit, as nearly all do.
type valueProblem struct {
	problem, expected string
	steps             []any
}

func (w *valueProblem) withStep(step any) *valueProblem {
	w.steps = append(w.steps, step)
	return w
}

// validate returns the first problem; nil if the value fits.
func validate(v any, s *shape) *valueProblem {
	k := s.kindOf()
	if v == nil || k == ofAnything {
		return nil
	}
	fits := false
	switch v := v.(type) {
	case map[string]any:
		if k == ofObject || k == ofMap {
			return validateEntries(v, s)
		}
	case []any:
		if k == ofList {
			return validateItems(v, s.elem)
		}
	case string:
		if k == ofBytes && !isBase64(v) {
			return &valueProblem{problem: notBase64, expected: base64Text}
		}
		fits = literalFits(v, k)
	default:
		fits = literalFits(v, k)
	}
	if fits {
		return nil
	}
	return &valueProblem{problem: "the value is " + literalName(v), expected: describeShape(s)}
}

func validateItems(v []any, elem *shape) *valueProblem {
	for i, item := range v {
		if w := validate(item, elem); w != nil {
			return w.withStep(i)
		}
	}
	return nil
}

// validateEntries returns the problem of the entry that does not fit; of several, the one
// with the first key in order. It accepts fields that the schema lacks: the API server may
// prune them.
func validateEntries(v map[string]any, s *shape) *valueProblem {
	var found *valueProblem
	first := ""
	for key, value := range v {
		if found != nil && key > first {
			continue
		}
		if below, ok := s.field(key); ok {
			if w := validate(value, below); w != nil {
				found, first = w, key
			}
		}
	}
	if found == nil {
		return nil
	}
	return found.withStep(first)
}

// The problem of a text that is not base64. It does not repeat the text, which may be
// secret.
const (
	notBase64  = "the value is not base64"
	base64Text = `base64, as bytes("text") gives it; in a Secret, put plain text into stringData`
)

// isBase64 reports whether a text is the base64 by which JSON encodes bytes. Line breaks are ignored.
func isBase64(text string) bool {
	_, err := base64.StdEncoding.DecodeString(text)
	return err == nil
}
