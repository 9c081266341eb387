package shard

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"
)

// View is the replicas over which slots are spread: their IDs, sorted, without duplicates. An empty view
// assigns no slot.
type View []string

// NewView returns the view of some replicas.
func NewView(ids ...string) View {
	v := slices.Clone(ids)
	slices.Sort(v)
	return slices.Compact(v)
}

// ParseView reads what String has written.
func ParseView(text string) View {
	return NewView(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' })...)
}

// String has the IDs, separated by spaces.
func (v View) String() string { return strings.Join(v, " ") }

// Equal compares two views.
func (v View) Equal(other View) bool { return slices.Equal(v, other) }

// headroom is by how many percent the slots of one replica may exceed the mean.
const headroom = 10

// Assignment is the owner of each slot, as an index into the view.
type Assignment struct {
	view   View
	owners [Slots]int16
}

// Assign assigns each slot to a replica of the view: to the one with the highest score for the slot, which
// is a hash of both (rendezvous hashing), among those that have fewer slots than the mean and a tenth, rounded up
// (bounded loads, after Mirrokni, Thorup and Zadimoghaddam 2018). Replicas with the same view compute the
// same. When a replica joins or leaves, most slots stay where they are.
func (v View) Assign() *Assignment {
	a := &Assignment{view: v}
	if len(v) == 0 {
		return a
	}
	seeds := make([]uint64, len(v))
	for i, id := range v {
		h := fnv.New64a()
		_, _ = h.Write([]byte(id)) // never fails
		seeds[i] = h.Sum64()
	}
	capacity := (Slots*(100+headroom) + 100*len(v) - 1) / (100 * len(v))
	load := make([]int, len(v))
	for slot := range a.owners {
		score := func(i int16) uint64 { return mix(seeds[i] + uint64(slot)*0x9e3779b97f4a7c15) }
		best := int16(-1)
		for i := range v {
			if load[i] < capacity && (best < 0 || cmp.Compare(score(int16(i)), score(best)) > 0) {
				best = int16(i)
			}
		}
		load[best]++
		a.owners[slot] = best
	}
	return a
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Owner returns the replica to which a slot is assigned; empty if the view is.
func (a *Assignment) Owner(slot Slot) string {
	if len(a.view) == 0 {
		return ""
	}
	return a.view[a.owners[slot]]
}

// Of returns the slots of a replica; none if the view does not have it.
func (a *Assignment) Of(id string) (out Set) {
	i, found := slices.BinarySearch(a.view, id)
	if !found {
		return out
	}
	for slot, owner := range a.owners {
		if int(owner) == i {
			out = out.With(Slot(slot))
		}
	}
	return out
}
