package watch

import "slices"

// Up to this size a set of subscribers is a slice; a map is faster for larger ones.
const sliceSetSize = 8

// countedSet is a set of subscribers with counts. Nearly every route has a single
// subscriber, so small sets are slices: a map for each would cost more than the watched
// objects.
type countedSet[S comparable] struct {
	list []countedMember[S]
	many map[S]int
}

type countedMember[S comparable] struct {
	subscriber S
	count      int
}

func (m *countedSet[S]) add(s S) {
	if m.many != nil {
		m.many[s]++
		return
	}
	if i := m.find(s); i >= 0 {
		m.list[i].count++
		return
	}
	if len(m.list) < sliceSetSize {
		m.list = append(m.list, countedMember[S]{s, 1})
		return
	}
	m.many = make(map[S]int, 2*sliceSetSize)
	for _, one := range m.list {
		m.many[one.subscriber] = one.count
	}
	m.many[s] = 1
	m.list = nil
}

// It undoes one add, if there was one.
func (m *countedSet[S]) remove(s S) {
	if m.many != nil {
		if m.many[s]--; m.many[s] <= 0 {
			delete(m.many, s)
		}
		return
	}
	i := m.find(s)
	if i < 0 {
		return
	}
	if m.list[i].count--; m.list[i].count == 0 {
		m.list = slices.Delete(m.list, i, i+1)
	}
}

func (m *countedSet[S]) find(s S) int {
	return slices.IndexFunc(m.list, func(one countedMember[S]) bool { return one.subscriber == s })
}

func (m *countedSet[S]) len() int { return len(m.list) + len(m.many) }

// uniqueSet collects subscribers, each once, in order.
type uniqueSet[S comparable] struct {
	list []S
	seen map[S]struct{}
}

func (f *uniqueSet[S]) addAll(m *countedSet[S]) {
	if m == nil {
		return
	}
	for _, one := range m.list {
		f.add(one.subscriber)
	}
	for s := range m.many {
		f.add(s)
	}
}

func (f *uniqueSet[S]) add(s S) {
	if f.seen == nil {
		if slices.Contains(f.list, s) {
			return
		}
		f.list = append(f.list, s)
		if len(f.list) > sliceSetSize {
			f.seen = make(map[S]struct{}, 4*sliceSetSize)
			for _, one := range f.list {
				f.seen[one] = struct{}{}
			}
		}
		return
	}
	if _, ok := f.seen[s]; !ok {
		f.seen[s] = struct{}{}
		f.list = append(f.list, s)
	}
}

// ensure returns the map's value for the key, and creates the value and the map if they are
// missing: most actors never use most of an index.
func ensure[K comparable, V any](in *map[K]V, key K, create func() V) V {
	if *in == nil {
		*in = map[K]V{}
	}
	v, ok := (*in)[key]
	if !ok {
		v = create()
		(*in)[key] = v
	}
	return v
}

func newSet[K comparable]() map[K]struct{} { return map[K]struct{}{} }

func drop[K, S comparable](in map[K]*countedSet[S], key K, s S) {
	if m := in[key]; m != nil {
		m.remove(s)
		if m.len() == 0 {
			delete(in, key)
		}
	}
}

func discard[K, V comparable](in map[K]map[V]struct{}, key K, value V) {
	delete(in[key], value)
	if len(in[key]) == 0 {
		delete(in, key)
	}
}
