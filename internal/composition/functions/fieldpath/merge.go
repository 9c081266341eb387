package fieldpath

import (
	"fmt"
	"reflect"
	"slices"
)

// merge merges a new value with an old one. Appending to a list at the top skips items that the list already
// contains; appending to nested lists doesn't, as upstream.
func merge(old, value any, policy Policy) (any, error) {
	if list, ok := value.([]any); ok && policy.AppendLists {
		if have, ok := old.([]any); ok {
			value = slices.DeleteFunc(slices.Clone(list), func(item any) bool {
				return slices.ContainsFunc(have, func(v any) bool { return reflect.DeepEqual(v, item) })
			})
		}
	}
	return mergeField(old, true, value, policy)
}

// mergeField merges a field of two objects. An empty old value, such as 0 or "", never wins
// over a new one.
func mergeField(old any, exists bool, value any, policy Policy) (any, error) {
	switch {
	case !exists:
		return value, nil
	case value == nil:
		if policy.KeepExisting {
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
	if policy.KeepExisting && !isEmpty(old) {
		return old, nil
	}
	return value, nil
}

func mergeFields(old, value map[string]any, policy Policy) (any, error) {
	for name, v := range value {
		was, exists := old[name]
		if !exists && v == nil && policy.KeepExisting {
			continue
		}
		merged, err := mergeField(was, exists, v, policy)
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
	case policy.AppendLists && !ok && old != nil:
		return nil, fmt.Errorf("cannot append two slices with different type (%T, %T)", value, old)
	case policy.AppendLists:
		return append(append(make([]any, 0, len(have)+len(value)), have...), value...), nil // not nil, even if it is empty
	case policy.KeepExisting && !isEmpty(old):
		return old, nil
	default:
		return value, nil
	}
}

func isEmpty(v any) bool {
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
