package shard

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"iter"
	"math/bits"
)

// Slot is one of the parts into which objects are divided.
type Slot uint16

// Slots is the number of slots. A replica of a hundred still has five of them.
const Slots = 512

// SlotOf returns the slot of an object: by its namespace, or by its name if it is cluster-scoped. It depends
// on nothing else, in any version of the program: replicas of two versions agree during an upgrade.
func SlotOf(namespace, name string) Slot {
	if namespace == "" {
		namespace = name
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(namespace))   // never fails
	return Slot(mix(h.Sum64()) % Slots) // FNV alone puts names that differ in their last letters next to each other
}

// Set is a set of slots. The zero value is empty. It is compared with ==.
type Set [Slots / 64]uint64

// Has reports whether a slot is in the set.
func (s Set) Has(slot Slot) bool { return s[slot/64]&(1<<(slot%64)) != 0 }

// With returns the set with a slot added.
func (s Set) With(slot Slot) Set {
	s[slot/64] |= 1 << (slot % 64)
	return s
}

// Without returns the slots that are not in the other set.
func (s Set) Without(other Set) Set {
	for i := range s {
		s[i] &^= other[i]
	}
	return s
}

// Union returns the slots that are in either set.
func (s Set) Union(other Set) Set {
	for i := range s {
		s[i] |= other[i]
	}
	return s
}

// IsEmpty reports whether the set has no slots.
func (s Set) IsEmpty() bool { return s == Set{} }

// Len counts the slots.
func (s Set) Len() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// MarshalText encodes the set in base64. It never fails.
func (s Set) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, Slots/8)
	for _, word := range s {
		raw = binary.BigEndian.AppendUint64(raw, word)
	}
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText decodes what MarshalText has encoded.
func (s *Set) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("decode a set of slots: %w", err)
	}
	if len(raw) != Slots/8 {
		return fmt.Errorf("decode a set of slots: it has %d bytes, not %d", len(raw), Slots/8)
	}
	for i := range s {
		s[i] = binary.BigEndian.Uint64(raw[8*i:])
	}
	return nil
}

// All iterates over the slots, in order.
func (s Set) All() iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		for i, word := range s {
			for ; word != 0; word &= word - 1 {
				if !yield(Slot(i*64 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}
