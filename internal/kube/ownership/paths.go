package ownership

import (
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Path is the path of a field, given the names that lead to it.
func Path(names ...string) fieldpath.Path {
	path := make(fieldpath.Path, len(names))
	for i, name := range names {
		path[i] = fieldpath.FieldNameElement(name)
	}
	return path
}

// ItemOf is the path of an item of the set at a path, such as a finalizer.
func ItemOf(path fieldpath.Path, item any) fieldpath.Path {
	return append(path.Copy(), fieldpath.ValueElement(value.NewValueInterface(item)))
}

// Owns reports whether a path, or something below it, is in a set.
func Owns(set *fieldpath.Set, path fieldpath.Path) bool {
	for _, element := range path[:len(path)-1] {
		below, has := set.Children.Get(element)
		if !has {
			return false
		}
		set = below
	}
	_, owned := child(set, path[len(path)-1])
	return owned
}

// Split removes a path and what is below it from a set. The rest also loses the maps above
// the path as members: a manager that owns only a part of a map keeps that part. If the
// path is not in the set, rest is the set.
func Split(set *fieldpath.Set, path fieldpath.Path) (rest, cut *fieldpath.Set) {
	rest = set.RecursiveDifference(fieldpath.NewSet(path))
	cut = set.Difference(rest)
	if cut.Empty() {
		return set, cut
	}
	above := &fieldpath.Set{}
	for i := 1; i < len(path); i++ {
		above.Insert(path[:i])
	}
	return rest.Difference(above), cut
}

// below is nil if the element is owned as a whole.
func child(set *fieldpath.Set, element fieldpath.PathElement) (below *fieldpath.Set, owned bool) {
	if below, has := set.Children.Get(element); has {
		return below, true
	}
	return nil, set.Members.Has(element)
}
