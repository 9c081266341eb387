package watch

import "slices"

// few is how many subscribers share a route before a map finds them faster.
const few = 8

// members is a counted set of subscribers. Nearly every route has a single
// member, so small sets are slices: a map each would cost more than the objects
// that are watched.
type members[S comparable] struct {
	list []member[S]
	many map[S]int
}

type member[S comparable] struct {
	who   S
	times int
}

func (m *members[S]) add(s S) {
	if m.many != nil {
		m.many[s]++
		return
	}
	if i := m.find(s); i >= 0 {
		m.list[i].times++
		return
	}
	if len(m.list) < few {
		m.list = append(m.list, member[S]{s, 1})
		return
	}
	m.many = make(map[S]int, 2*few)
	for _, one := range m.list {
		m.many[one.who] = one.times
	}
	m.many[s] = 1
	m.list = nil
}

// remove undoes one add, if there was one.
func (m *members[S]) remove(s S) {
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
	if m.list[i].times--; m.list[i].times == 0 {
		m.list = slices.Delete(m.list, i, i+1)
	}
}

func (m *members[S]) find(s S) int {
	return slices.IndexFunc(m.list, func(one member[S]) bool { return one.who == s })
}

func (m *members[S]) len() int { return len(m.list) + len(m.many) }

// found collects subscribers, each once.
type found[S comparable] struct {
	list []S
	seen map[S]struct{}
}

func (f *found[S]) addAll(m *members[S]) {
	if m == nil {
		return
	}
	for _, one := range m.list {
		f.add(one.who)
	}
	for s := range m.many {
		f.add(s)
	}
}

func (f *found[S]) add(s S) {
	if f.seen == nil {
		if slices.Contains(f.list, s) {
			return
		}
		f.list = append(f.list, s)
		if len(f.list) > few {
			f.seen = make(map[S]struct{}, 4*few)
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

// ensure returns the map's value for the key, made if need be, in a map that is
// itself made if need be: most informers never use most of an index.
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

// drop takes s from the set under the key, and the key with its last member.
func drop[K, S comparable](in map[K]*members[S], key K, s S) {
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
