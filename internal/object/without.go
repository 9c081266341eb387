package object

import (
	"slices"
	"strings"
)

// WithoutFields returns a document without the given fields. It shares what remains with
// the document. A map that becomes empty is removed too.
func WithoutFields(document map[string]any, fields []Path) map[string]any {
	out := document
	// From the last to the first, so the indices of list items stay valid.
	for _, field := range slices.Backward(sortedSteps(fields)) {
		if left, _ := without(out, field).(map[string]any); left != nil {
			out = left
		} else {
			out = map[string]any{}
		}
	}
	return out
}

// They are in document order.
func sortedSteps(fields []Path) [][]step {
	var all [][]step
	for _, field := range fields {
		if steps, err := parseSteps(string(field)); err == nil && len(steps) > 0 {
			all = append(all, steps)
		}
	}
	slices.SortStableFunc(all, func(a, b []step) int {
		return slices.CompareFunc(a, b, func(x, y step) int {
			if x.kind == indexed && y.kind == indexed {
				return x.index - y.index
			}
			return strings.Compare(x.name, y.name)
		})
	})
	return all
}

// It returns nil if nothing is left.
func without(value any, steps []step) any {
	if len(steps) == 0 {
		return nil
	}
	s := steps[0]
	switch v := value.(type) {
	case map[string]any:
		below, ok := v[s.name]
		if s.kind != named || !ok {
			return value
		}
		out := make(map[string]any, len(v))
		for key, kept := range v {
			out[key] = kept
		}
		if left := without(below, steps[1:]); left != nil {
			out[s.name] = left
		} else {
			delete(out, s.name)
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		if s.kind != indexed || s.index >= len(v) {
			return value
		}
		left := without(v[s.index], steps[1:])
		if left == nil {
			return slices.Delete(slices.Clone(v), s.index, s.index+1)
		}
		out := slices.Clone(v)
		out[s.index] = left
		return out
	}
	return value
}

// ValueAt returns the value of a document's field; nil if it does not exist.
func ValueAt(document map[string]any, field Path) any {
	steps, err := parseSteps(string(field))
	if err != nil {
		return nil
	}
	var value any = document
	for _, s := range steps {
		switch v := value.(type) {
		case map[string]any:
			value = v[s.name]
		case []any:
			if s.kind != indexed || s.index >= len(v) {
				return nil
			}
			value = v[s.index]
		default:
			return nil
		}
	}
	return value
}
