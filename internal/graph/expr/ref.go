package expr

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/internal/object"
)

// Ref is a path that an expression reads, from one of the declared names:
// vpc.status.subnets[0].id.
type Ref struct {
	Root string
	Path []Step
	// Optional tells that the expression copes with the path, or with a part of
	// it, not being there: it reads through ?. or [?…], or asks with has() first.
	Optional bool
}

// Step leads from a value to one inside it.
type Step struct {
	// Name is the field of an object or the key of a map; empty for a list's item.
	Name string
	// Index is the item of a list.
	Index int
	// Each tells that any item or entry may be meant: the step is made by a
	// comprehension or by a computed index.
	Each bool
	// Optional tells that the expression copes with this step leading nowhere.
	Optional bool
}

// String renders the path as people write it. Optional steps look like others.
func (r Ref) String() string {
	path := object.Path(r.Root)
	for _, s := range r.Path {
		path = s.below(path)
	}
	return string(path)
}

func (s Step) below(path object.Path) object.Path {
	switch {
	case s.Each:
		return path + "[*]"
	case s.Name != "":
		return path.Field(s.Name)
	default:
		return path.Index(s.Index)
	}
}

// then returns the path that leads on from r. It never shares memory with r.
func (r Ref) then(s Step) Ref {
	path := make([]Step, len(r.Path), len(r.Path)+1)
	copy(path, r.Path)
	return Ref{Root: r.Root, Path: append(path, s), Optional: r.Optional || s.Optional}
}

// covers tells whether a step of an expression is, or may be, the step to a value.
func (s Step) covers(actual Step) bool {
	return s.Each || s.Name == actual.Name && s.Index == actual.Index
}

// begins tells whether the leading steps of r may be those of the given path.
func (r Ref) begins(path Ref) bool {
	if r.Root != path.Root || len(r.Path) < len(path.Path) {
		return false
	}
	for i, s := range path.Path {
		if !r.Path[i].covers(s) {
			return false
		}
	}
	return true
}

func compareRefs(a, b Ref) int {
	return cmp.Or(
		strings.Compare(a.Root, b.Root),
		slices.CompareFunc(a.Path, b.Path, func(x, y Step) int {
			return cmp.Or(strings.Compare(x.Name, y.Name), cmp.Compare(x.Index, y.Index), strings.Compare(
				strconv.FormatBool(x.Each), strconv.FormatBool(y.Each)))
		}))
}

// union sorts paths and joins those that are equal. Of equal paths a step stays
// optional only where it is optional in all.
func union(refs []Ref) []Ref {
	var out []Ref
	sorted := slices.Clone(refs)
	slices.SortStableFunc(sorted, compareRefs)
	for _, r := range sorted {
		if n := len(out); n > 0 && compareRefs(out[n-1], r) == 0 {
			out[n-1] = both(out[n-1], r)
			continue
		}
		out = append(out, r)
	}
	return out
}

func both(a, b Ref) Ref {
	joined := Ref{Root: a.Root, Path: slices.Clone(a.Path)}
	for i := range joined.Path {
		joined.Path[i].Optional = a.Path[i].Optional && b.Path[i].Optional
		joined.Optional = joined.Optional || joined.Path[i].Optional
	}
	return joined
}
