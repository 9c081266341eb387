package library

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// mapFunctions declares map.merge(map) and map.deepMerge(map). If both maps have a key, the
// argument's value wins; deepMerge merges the two values if both are maps. Lists are
// replaced, never merged. deepMerge takes objects as well, so its result has no type.
func mapFunctions() []cel.EnvOption {
	mapType := cel.MapType(cel.TypeParamType("K"), cel.TypeParamType("V"))
	declare := func(name, overload string, of *cel.Type, combine func(a, b traits.Mapper) ref.Val) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(overload, []*cel.Type{of, of}, of,
			cel.BinaryBinding(func(a, b ref.Val) ref.Val {
				left, ok := a.(traits.Mapper)
				if !ok {
					return noOverload(a)
				}
				right, ok := b.(traits.Mapper)
				if !ok {
					return noOverload(b)
				}
				return combine(left, right)
			})))
	}
	return []cel.EnvOption{
		declare("merge", "map_merge", mapType, merge),
		declare("deepMerge", "map_deep_merge", cel.DynType, deepMerge),
	}
}

func merge(a, b traits.Mapper) ref.Val {
	return mergeMaps(a, b, func(_, right ref.Val) ref.Val { return right })
}

func deepMerge(a, b traits.Mapper) ref.Val {
	return mergeMaps(a, b, func(left, right ref.Val) ref.Val {
		x, ok := left.(traits.Mapper)
		if !ok {
			return right
		}
		y, ok := right.(traits.Mapper)
		if !ok {
			return right
		}
		return deepMerge(x, y)
	})
}

func mergeMaps(a, b traits.Mapper, both func(left, right ref.Val) ref.Val) ref.Val {
	out := map[ref.Val]ref.Val{}
	for it := a.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		out[key] = a.Get(key)
	}
	for it := b.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		value := b.Get(key)
		if existing, ok := out[key]; ok {
			value = both(existing, value)
		}
		out[key] = value
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, out)
}
