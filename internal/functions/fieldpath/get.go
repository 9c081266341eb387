package fieldpath

import (
	"fmt"
	"maps"
	"slices"
)

// Get returns the value at a path. Where there is none, also because the path goes through
// null, the error is NotFound; where there could be none, as of a field of a number, it is
// another. The value is the object's own.
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
			return nil, isNull(path[:i])
		}
		if s.IsIndex {
			list, ok := from.([]any)
			switch {
			case !ok:
				return nil, fmt.Errorf("%s: not an array", path[:i])
			case s.Index >= len(list):
				return nil, &NotFound{message: fmt.Sprintf("%s: no such element", path[:i+1])}
			}
			from = list[s.Index]
			continue
		}
		object, ok := from.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: not an object", path[:i])
		}
		if from, ok = object[s.Field]; !ok {
			return nil, &NotFound{message: fmt.Sprintf("%s: no such field", path[:i+1])}
		}
	}
	if len(path) == 0 {
		return nil, nil
	}
	return from, nil
}

// isNull says that a path goes through null at another.
func isNull(at Path) error {
	return &NotFound{message: fmt.Sprintf("%s: is null", at), null: true}
}

// maxExpanded bounds how many fields a path with wildcards can stand for.
const maxExpanded = 10_000

// expand returns the paths that a path with wildcards stands for, in a stable order.
// Only those count that are there. Where none is, the error is NotFound.
func expand(from any, path Path) ([]Path, error) {
	wild := slices.IndexFunc(path, func(s Segment) bool { return !s.IsIndex && s.Field == every })
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
	segments, err := below(in, path[:wild])
	if err != nil {
		return nil, err
	}
	var all []Path
	var none error = &NotFound{message: fmt.Sprintf("%s: no such field", path)}
	for _, s := range segments {
		one := slices.Concat(path[:wild], Path{s}, path[wild+1:])
		if s.Field == every {
			continue // a field of that very name would stand for all again
		}
		some, err := expand(from, one)
		switch {
		case throughNull(err):
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

// below returns the segments that a wildcard at a path stands for.
func below(in any, path Path) ([]Segment, error) {
	var segments []Segment
	switch in := in.(type) {
	case nil:
		return nil, isNull(path)
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
