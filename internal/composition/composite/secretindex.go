package composite

import "strings"

// indexedPrefix is the length of the prefixes in a secretIndex. Each value has as many bytes.
const indexedPrefix = minSecretValue

// prefixBits is how many hashes of prefixes there are.
const prefixBits = 1 << 16

// secretIndex has the values by their prefixes, so that a text is read once for all values, and not for each: an
// object of a megabyte would take a quarter of a second.
type secretIndex struct {
	// prefixes has a bit for the hash of each prefix: most places of a text have none of them.
	prefixes []uint64
	values   map[string][]string
	// overflow is that of the values.
	overflow bool
}

func newSecretIndex(v secretValues) *secretIndex {
	index := &secretIndex{overflow: v.overflow}
	if len(v.values) == 0 {
		return index
	}
	index.prefixes, index.values = make([]uint64, prefixBits/64), map[string][]string{}
	for _, value := range v.values {
		prefix := value[:indexedPrefix]
		index.values[prefix] = append(index.values[prefix], value)
		word, bit := prefixBit(prefix)
		index.prefixes[word] |= bit
	}
	return index
}

// prefixBit is the bit of the first four bytes of a text.
func prefixBit(text string) (word uint32, bit uint64) {
	const multiplier = 2654435761 // of Knuth's multiplicative hashing
	hash := (uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16 | uint32(text[3])<<24) * multiplier >> 16
	return hash / 64, 1 << (hash % 64)
}

// areIn says whether a value of an object, and whether a key of it, contains one of the values.
func (x *secretIndex) areIn(value any) (found, inKeys bool) {
	if x.overflow {
		return true, true
	}
	if len(x.values) == 0 {
		return false, false
	}
	switch o := value.(type) {
	case string:
		return x.isIn(o), false
	case []any:
		for _, item := range o {
			f, k := x.areIn(item)
			found, inKeys = found || f, inKeys || k
		}
	case map[string]any:
		for key, item := range o {
			f, k := x.areIn(item)
			inKey := x.isIn(key)
			found, inKeys = found || f || inKey, inKeys || k || inKey
		}
	}
	return found, inKeys
}

// isIn says whether a text contains a value. The values of each prefix are searched for once at most, however often the
// text has the prefix.
func (x *secretIndex) isIn(text string) bool {
	var searched map[string]bool
	for i := 0; i+indexedPrefix <= len(text); i++ {
		if word, bit := prefixBit(text[i:]); x.prefixes[word]&bit == 0 {
			continue
		}
		prefix := text[i : i+indexedPrefix]
		values := x.values[prefix]
		if len(values) == 0 || searched[prefix] {
			continue
		}
		for _, value := range values {
			if strings.Contains(text[i:], value) {
				return true
			}
		}
		if searched == nil {
			searched = map[string]bool{}
		}
		searched[prefix] = true
	}
	return false
}
