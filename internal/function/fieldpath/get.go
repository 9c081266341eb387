package fieldpath

import (
	"fmt"
	"maps"
	"slices"
)

// Get returns the value at a path. Where there is none, the error is NotFound; where
// there could be none, as of a field of a number, it is another. The value is the
// object's own.
func Get(object map[string]any, path string) (any, error) {
	p, err := Parse(path)
	if err != nil {
		return nil, err
	}
	return get(object, p)
}

func get(from any, path Path) (any, error) {
	for i, s := range path {
		if s.IsIndex {
			list, ok := from.([]any)
			switch {
			case !ok:
				return nil, fmt.Errorf("%s: not an array", path[:i])
			case s.Index >= len(list):
				return nil, &NotFound{fmt.Sprintf("%s: no such element", path[:i+1])}
			}
			from = list[s.Index]
			continue
		}
		object, ok := from.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: not an object", path[:i])
		}
		if from, ok = object[s.Field]; !ok {
			return nil, &NotFound{fmt.Sprintf("%s: no such field", path[:i+1])}
		}
	}
	if len(path) == 0 {
		return nil, nil
	}
	return from, nil
}

// maxExpanded bounds how many fields a path with wildcards can stand for.
const maxExpanded = 10_000

// expand returns the paths that a path with wildcards stands for, in a stable order.
// Only those count that are there.
func expand(from any, path Path) ([]Path, error) {
	wild := slices.IndexFunc(path, func(s Segment) bool { return !s.IsIndex && s.Field == every })
	if wild < 0 {
		_, err := get(from, path)
		if IsNotFound(err) {
			return nil, nil
		}
		return []Path{path}, err
	}
	in, err := get(from, path[:wild])
	switch {
	case IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case wild == 0:
		in = from
	}
	segments, err := below(in, path[:wild])
	if err != nil {
		return nil, err
	}
	var all []Path
	for _, s := range segments {
		one := slices.Concat(path[:wild], Path{s}, path[wild+1:])
		if s.Field == every {
			continue // a field of that very name would stand for all again
		}
		some, err := expand(from, one)
		if err != nil {
			return nil, err
		}
		if all = append(all, some...); len(all) > maxExpanded {
			return nil, fmt.Errorf("%s stands for more than %d fields", path, maxExpanded)
		}
	}
	return all, nil
}

// below returns the segments that a wildcard at a path stands for.
func below(in any, path Path) ([]Segment, error) {
	var segments []Segment
	switch in := in.(type) {
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
