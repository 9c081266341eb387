package object

import (
	"slices"
	"strings"
)

// Without is a document without the given fields, which share what is left with it. A map
// in which nothing is left because of that goes too.
func Without(document map[string]any, fields []Path) map[string]any {
	out := document
	// From the last to the first, so that the places of items in a list stay right.
	for _, field := range slices.Backward(inOrder(fields)) {
		if left, _ := without(out, field).(map[string]any); left != nil {
			out = left
		} else {
			out = map[string]any{}
		}
	}
	return out
}

// inOrder are the steps of paths in the order of a document's lists.
func inOrder(fields []Path) [][]step {
	var all [][]step
	for _, field := range fields {
		if steps, err := stepsOf(string(field)); err == nil && len(steps) > 0 {
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

// without is a value without a field below it; nil if nothing is left of it.
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

// At is the value of a document's field; nil if there is none.
func At(document map[string]any, field Path) any {
	steps, err := stepsOf(string(field))
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
