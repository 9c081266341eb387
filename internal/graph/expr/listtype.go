package expr

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Lists that Kubernetes treats as sets, or as maps by some of their items'
// fields, behave so in expressions as well: their order doesn't matter to ==,
// and + replaces an item that is there already.

// identity says how the items of a list are told apart.
type identity struct {
	set  bool
	keys []string // of a list that is a map
}

func (v *sequence) identity() identity {
	if v.shape.kindOf() != ofList || v.shape.schema == nil {
		return identity{}
	}
	extensions := v.shape.schema.Extensions
	kind, _ := extensions.GetString("x-kubernetes-list-type")
	keys, _ := extensions.GetStringSlice("x-kubernetes-list-map-keys")
	if kind != "map" {
		keys = nil
	}
	return identity{set: kind == "set", keys: keys}
}

func (i identity) ordered() bool { return !i.set && len(i.keys) == 0 }

// same tells whether two items have one identity.
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
	for _, key := range i.keys {
		left, inLeft := x.Find(types.String(key))
		right, inRight := y.Find(types.String(key))
		if inLeft != inRight || inLeft && types.Equal(left, right) != types.True {
			return false
		}
	}
	return true
}

// index returns the place of the item with the identity of another, or -1.
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
	theirs := all(b)
	for n, item := range all(a) {
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

func added(a *sequence, other ref.Val) ref.Val {
	b, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	by := a.identity()
	joined := all(a)
	for _, item := range all(b) {
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

func all(list traits.Lister) []ref.Val {
	var out []ref.Val
	for it := list.Iterator(); it.HasNext() == types.True; {
		out = append(out, it.Next())
	}
	return out
}
