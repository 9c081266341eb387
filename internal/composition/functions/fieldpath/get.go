package fieldpath

import (
	"fmt"
	"maps"
	"slices"
)

// Get returns the value at a path. If there is none, or the path goes through null, the
// error is a NotFoundError; if there can be none, as with a field of a number, it is another
// error. The value is not copied.
func Get(object map[string]any, path string) (any, error) {
	p, err := Parse(path)
	if err != nil {
		return nil, err
	}
	return get(object, p)
}

func get(from any, path Path) (any, error) {
	for i, s := range path {
		if from == nil {
			return nil, nullError(path[:i])
		}
		if s.IsIndex {
			list, ok := from.([]any)
			switch {
			case !ok:
				return nil, fmt.Errorf("%s: not an array", path[:i])
			case s.Index >= len(list):
				return nil, &NotFoundError{message: fmt.Sprintf("%s: no such element", path[:i+1])}
			}
			from = list[s.Index]
			continue
		}
		object, ok := from.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: not an object", path[:i])
		}
		if from, ok = object[s.Field]; !ok {
			return nil, &NotFoundError{message: fmt.Sprintf("%s: no such field", path[:i+1])}
		}
	}
	if len(path) == 0 {
		return nil, nil
	}
	return from, nil
}

// nullError is the error for a path that goes through a null at another path.
func nullError(at Path) error {
	return &NotFoundError{message: fmt.Sprintf("%s: is null", at), null: true}
}

const maxExpanded = 10_000

// expand returns the existing paths that a path with wildcards matches, in a stable order.
// If there are none, the error is a NotFoundError.
func expand(from any, path Path) ([]Path, error) {
	wild := slices.IndexFunc(path, Segment.IsWildcard)
	if wild < 0 {
		if _, err := get(from, path); err != nil {
			return nil, err
		}
		return []Path{path}, nil
	}
	in := from
	if wild > 0 {
		var err error
		if in, err = get(from, path[:wild]); err != nil {
			return nil, err
		}
	}
	segments, err := wildcardSegments(in, path[:wild])
	if err != nil {
		return nil, err
	}
	var all []Path
	var none error = &NotFoundError{message: fmt.Sprintf("%s: no such field", path)}
	for _, s := range segments {
		one := slices.Concat(path[:wild], Path{s}, path[wild+1:])
		if s.Field == wildcard {
			continue // a field named * would be expanded again
		}
		some, err := expand(from, one)
		switch {
		case isThroughNull(err):
			none = err
		case err != nil && !IsNotFound(err):
			return nil, err
		}
		if all = append(all, some...); len(all) > maxExpanded {
			return nil, fmt.Errorf("%s stands for more than %d fields", path, maxExpanded)
		}
	}
	if len(all) == 0 {
		return nil, none
	}
	return all, nil
}

func wildcardSegments(in any, path Path) ([]Segment, error) {
	var segments []Segment
	switch in := in.(type) {
	case nil:
		return nil, nullError(path)
	case []any:
		for i := range in {
			segments = append(segments, Segment{Index: i, IsIndex: true})
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(in)) {
			segments = append(segments, Segment{Field: key})
		}
	default:
		return nil, fmt.Errorf("%q: unexpected wildcard usage", path)
	}
	return segments, nil
}
