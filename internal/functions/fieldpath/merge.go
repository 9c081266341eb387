package fieldpath

import (
	"fmt"
	"reflect"
	"slices"
)

// merge returns what becomes of an old value when a new one is merged with it. At the
// top, items that a list has already are not appended to it again; below, they are.
func merge(old, value any, policy Policy) (any, error) {
	if list, ok := value.([]any); ok && policy.Append {
		if have, ok := old.([]any); ok {
			value = slices.DeleteFunc(slices.Clone(list), func(item any) bool {
				return slices.ContainsFunc(have, func(v any) bool { return reflect.DeepEqual(v, item) })
			})
		}
	}
	return mergeField(old, true, value, policy)
}

// mergeField returns the value of a field of an object that is merged with another. An
// empty value, such as 0 or "", never wins over a new one.
func mergeField(old any, there bool, value any, policy Policy) (any, error) {
	switch {
	case !there:
		return value, nil
	case value == nil:
		if policy.Keep {
			return old, nil
		}
		return nil, nil
	}
	switch value := value.(type) {
	case map[string]any:
		if fields, ok := old.(map[string]any); ok && len(fields) > 0 {
			return mergeFields(fields, value, policy)
		}
	case []any:
		return mergeList(old, value, policy)
	}
	if policy.Keep && !empty(old) {
		return old, nil
	}
	return value, nil
}

func mergeFields(old, value map[string]any, policy Policy) (any, error) {
	for name, v := range value {
		was, there := old[name]
		if !there && v == nil && policy.Keep {
			continue
		}
		merged, err := mergeField(was, there, v, policy)
		if err != nil {
			return nil, err
		}
		old[name] = merged
	}
	return old, nil
}

func mergeList(old any, value []any, policy Policy) (any, error) {
	have, ok := old.([]any)
	switch {
	case policy.Append && !ok && old != nil:
		return nil, fmt.Errorf("cannot append two slices with different type (%T, %T)", value, old)
	case policy.Append:
		return append(append(make([]any, 0, len(have)+len(value)), have...), value...), nil // a list, also where there is nothing in it
	case policy.Keep && !empty(old):
		return old, nil
	default:
		return value, nil
	}
}

// empty is what a value is that says nothing.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	default:
		return false
	}
}
