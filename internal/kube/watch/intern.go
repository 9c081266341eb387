package watch

// interner gives equal values one copy. It forgets: a value that wasn't asked
// for in the last generation goes, so that names that come and go don't pile up.
//
// It holds no lock; its owner guards it.
type interner[K comparable, V any] struct {
	young, old map[K]V
}

// generation is how many values make a generation: above the vocabulary of any
// one kind, and small against its objects.
const generation = 4096

// share returns the copy kept under the key, which is v if there is none yet.
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
