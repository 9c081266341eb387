package expr

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Lists with x-kubernetes-list-type set or map behave as such in expressions: == ignores
// their order, and + replaces an item with the same identity.

type identity struct {
	set  bool
	keys []string // of a list that is a map
}

func (v *sequence) identity() identity {
	if v.shape.kindOf() != ofList {
		return identity{}
	}
	extensions := v.shape.schemaTraits().extensions
	kind, _ := extensions.GetString("x-kubernetes-list-type")
	keys, _ := extensions.GetStringSlice("x-kubernetes-list-map-keys")
	if kind != "map" {
		keys = nil
	}
	return identity{set: kind == "set", keys: keys}
}

func (i identity) ordered() bool { return !i.set && len(i.keys) == 0 }

func (i identity) same(a, b ref.Val) bool {
	if i.set {
		return types.Equal(a, b) == types.True
	}
	x, ok := a.(traits.Mapper)
	if !ok {
		return false
	}
	y, ok := b.(traits.Mapper)
	if !ok {
		return false
	}
	x, y = untracked(x), untracked(y)
	for _, key := range i.keys {
		left, inLeft := x.Find(types.String(key))
		right, inRight := y.Find(types.String(key))
		if inLeft != inRight || inLeft && types.Equal(left, right) != types.True {
			return false
		}
	}
	return true
}

// index returns -1 if no item has the identity.
func (i identity) index(items []ref.Val, of ref.Val) int {
	for n, item := range items {
		if i.same(item, of) {
			return n
		}
	}
	return -1
}

func equalLists(a *sequence, other ref.Val) ref.Val {
	b, ok := other.(traits.Lister)
	if !ok || types.Int(len(a.items)) != b.Size() {
		return types.False
	}
	by := a.identity()
	theirs := listItems(b)
	for n, item := range listItems(a) {
		if !by.ordered() {
			if n = by.index(theirs, item); n < 0 {
				return types.False
			}
		}
		if n >= len(theirs) || types.Equal(item, theirs[n]) != types.True {
			return types.False
		}
	}
	return types.True
}

func concatLists(a *sequence, other ref.Val) ref.Val {
	b, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	by := a.identity()
	joined := listItems(a)
	for _, item := range listItems(b) {
		if !by.ordered() {
			if n := by.index(joined, item); n >= 0 {
				joined[n] = item
				continue
			}
		}
		joined = append(joined, item)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, joined)
}

func listItems(list traits.Lister) []ref.Val {
	var out []ref.Val
	for it := list.Iterator(); it.HasNext() == types.True; {
		out = append(out, it.Next())
	}
	return out
}
