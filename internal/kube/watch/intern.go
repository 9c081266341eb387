package watch

// interner keeps one copy of equal values. A value that was not requested during the last generation is dropped, so
// names that come and go do not accumulate.
//
// It has no lock; its owner guards it.
type interner[K comparable, V any] struct {
	young, old map[K]V
}

// generation is how many values make a generation: more than the distinct names of one
// kind, and few compared to its objects.
const generation = 4096

// It stores v if there is no value under the key.
func (in *interner[K, V]) share(key K, v V) V {
	if kept, ok := in.young[key]; ok {
		return kept
	}
	if kept, ok := in.old[key]; ok {
		v = kept
	}
	if in.young == nil || len(in.young) >= generation {
		in.old, in.young = in.young, make(map[K]V)
	}
	in.young[key] = v
	return v
}
