package fieldpath

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	kjson "k8s.io/apimachinery/pkg/util/json"
)

// Policy is how a value is written if the field exists. The zero value replaces it.
type Policy struct {
	// Merge merges objects and lists instead of replacing them. KeepExisting lets existing
	// values win unless they are empty. AppendLists appends the items of lists.
	Merge, KeepExisting, AppendLists bool
}

// maxGrowth bounds how many items one Set can add to lists.
const maxGrowth = 100_000

// Set writes a value at a path, or at all paths that a path with [*] matches; if that only
// matches null, the error is a NotFoundError. Missing objects and lists on the path are
// created. The value is converted with JSON first, so it is copied.
func Set(object map[string]any, path string, value any, policy Policy) error {
	p, err := Parse(path)
	if err != nil {
		return err
	}
	paths := []Path{p}
	if strings.Contains(path, "[*]") {
		paths, err = expand(object, p)
		switch {
		case IsNotFound(err) && !isThroughNull(err):
			return fmt.Errorf("cannot expand ToFieldPath %s", path)
		case err != nil:
			return fmt.Errorf("cannot expand wildcards of %s: %w", path, err)
		}
	}
	for _, p := range paths {
		for _, s := range p {
			if s.Index > MaxIndex {
				return fmt.Errorf("index %d is greater than max allowed index %d", s.Index, MaxIndex)
			}
		}
	}
	room := maxGrowth
	for _, p := range paths {
		if err := setOne(object, p, value, policy, &room); err != nil {
			return err
		}
	}
	return nil
}

func setOne(object map[string]any, path Path, value any, policy Policy, room *int) error {
	value, err := JSON(value)
	if err != nil {
		return err
	}
	if policy.Merge {
		old, err := get(object, path)
		if err != nil && !IsNotFound(err) {
			return err
		}
		if old != nil && value != nil {
			if value, err = merge(old, value, policy); err != nil {
				return fmt.Errorf("failed to merge values: %w", err)
			}
		}
	}
	return set(object, path, value, room)
}

// set walks to the last segment and writes the value. Growing a list makes a new one, so
// each step keeps a function that replaces the list in its parent.
func set(object map[string]any, path Path, value any, room *int) error {
	var in any = object
	put := func(any) {}
	for i, s := range path {
		var at any
		if s.IsIndex {
			list, ok := in.([]any)
			if !ok {
				return fmt.Errorf("%s is not an array", path[:i])
			}
			if missing := s.Index + 1 - len(list); missing > 0 {
				if *room -= missing; *room < 0 {
					return fmt.Errorf("%s: lists would grow by more than %d items", path, maxGrowth)
				}
				list = append(slices.Clip(list), make([]any, missing)...)
				put(list)
			}
			at, put = list[s.Index], func(v any) { list[s.Index] = v }
		} else {
			fields, ok := in.(map[string]any)
			if !ok {
				return fmt.Errorf("%s is not an object", path[:i])
			}
			if at, ok = fields[s.Field]; ok && at == nil && i < len(path)-1 {
				return fmt.Errorf("%s is not %s", path[:i+1], containerName(path[i+1]))
			}
			put = func(v any) { fields[s.Field] = v }
		}
		if i == len(path)-1 {
			put(value)
			return nil
		}
		if at == nil {
			at = newContainer(path[i+1])
			put(at)
		}
		in = at
	}
	return nil
}

func containerName(next Segment) string {
	if next.IsIndex {
		return "an array"
	}
	return "an object"
}

func newContainer(next Segment) any {
	if next.IsIndex {
		return []any{}
	}
	return map[string]any{}
}

// ErrJSON is wrapped by errors for values that cannot be encoded as JSON.
var ErrJSON = errors.New("cannot marshal value to JSON")

// JSON returns a copy of a value as Kubernetes decodes it from JSON: whole numbers are int64.
func JSON(value any) (any, error) {
	switch v := value.(type) {
	case nil, bool, int64:
		return v, nil
	case string:
		if utf8.ValidString(v) {
			return v, nil
		}
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJSON, err)
	}
	var out any
	if err := kjson.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("cannot unmarshal value from JSON: %w", err)
	}
	return out, nil
}
