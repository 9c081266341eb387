package expr

import (
	"maps"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

type iterator = traits.Iterator

var (
	_ traits.Mapper = (*mapping)(nil)
	_ traits.Lister = (*sequence)(nil)
)

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// nonValue makes an iterator a ref.Val, which the interface demands and nothing uses.
type nonValue struct{ ref.Val }

type keys struct {
	nonValue
	sorted []string
	next   int
}

func (k *keys) HasNext() ref.Val { return types.Bool(k.next < len(k.sorted)) }

func (k *keys) Next() ref.Val {
	if k.next >= len(k.sorted) {
		return nil
	}
	k.next++
	return types.String(k.sorted[k.next-1])
}

type items struct {
	nonValue
	list *sequence
	next int
}

func (i *items) HasNext() ref.Val { return types.Bool(i.next < len(i.list.items)) }

func (i *items) Next() ref.Val {
	if i.next >= len(i.list.items) {
		return nil
	}
	i.next++
	return i.list.at(i.next - 1)
}

// untracked returns a map that records no misses: a comparison, or the operator in, does not need the key that it looks up.
func untracked(m traits.Mapper) traits.Mapper {
	if v, ok := m.(*mapping); ok {
		return &mapping{m: v.m, shape: v.shape, part: v.part}
	}
	return m
}

func equalMaps(a *mapping, other ref.Val) ref.Val {
	b, ok := other.(traits.Mapper)
	if !ok {
		return types.False
	}
	if a.Size() != b.Size() {
		return types.False
	}
	a, b = untracked(a).(*mapping), untracked(b)
	for it := a.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		x, inA := a.Find(key)
		y, inB := b.Find(key)
		if inA != inB || inA && types.Equal(x, y) != types.True {
			return types.False
		}
	}
	return types.True
}
