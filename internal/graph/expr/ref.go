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
	// Optional says that the expression handles a missing path, or a missing part of it:
	// it reads through ?. or [?…], or checks with has() first.
	Optional bool
	// Conditional says that the expression may have a value without reading the path: it reads
	// it in a branch, behind && or ||, as the alternative of an optional value, for each item of a
	// list, or in has().
	Conditional bool
}

// Step leads from a value to one inside it.
type Step struct {
	// Name is the field of an object or the key of a map; empty for a list's item.
	Name string
	// Index is the item of a list.
	Index int
	// Each says that the step may lead to any item or entry: it comes from a
	// comprehension or a computed index.
	Each bool
	// Optional says that the expression handles a missing value at this step.
	Optional bool
}

// Fields returns the path as names of fields and indexes of items, up to a step that may lead to any item.
func (r Ref) Fields() []any {
	out := make([]any, 0, len(r.Path))
	for _, step := range r.Path {
		switch {
		case step.Each:
			return out
		case step.Name != "":
			out = append(out, step.Name)
		default:
			out = append(out, step.Index)
		}
	}
	return out
}

// String returns the path as authors write it. It does not mark optional steps.
func (r Ref) String() string {
	path := object.Path(r.Root)
	for _, s := range r.Path {
		path = s.appendTo(path)
	}
	return string(path)
}

func (s Step) appendTo(path object.Path) object.Path {
	switch {
	case s.Each:
		return path + "[*]"
	case s.Name != "":
		return path.Field(s.Name)
	default:
		return path.Index(s.Index)
	}
}

// child shares no memory with r.
func (r Ref) child(s Step) Ref {
	path := make([]Step, len(r.Path), len(r.Path)+1)
	copy(path, r.Path)
	return Ref{Root: r.Root, Path: append(path, s), Optional: r.Optional || s.Optional, Conditional: r.Conditional}
}

// mayMatch reports whether a step of an expression may lead to the same value as actual.
func (s Step) mayMatch(actual Step) bool {
	return s.Each || s.Name == actual.Name && s.Index == actual.Index
}

// mayHavePrefix reports whether r may begin with the given path.
func (r Ref) mayHavePrefix(path Ref) bool {
	if r.Root != path.Root || len(r.Path) < len(path.Path) {
		return false
	}
	for i, s := range path.Path {
		if !r.Path[i].mayMatch(s) {
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

// mergeRefs sorts paths and merges equal ones. A merged path is conditional, and a step of it optional, only if
// it is in all of them.
func mergeRefs(refs []Ref) []Ref {
	var out []Ref
	sorted := slices.Clone(refs)
	slices.SortStableFunc(sorted, compareRefs)
	for _, r := range sorted {
		if n := len(out); n > 0 && compareRefs(out[n-1], r) == 0 {
			out[n-1] = mergeEqualRefs(out[n-1], r)
			continue
		}
		out = append(out, r)
	}
	return out
}

func mergeEqualRefs(a, b Ref) Ref {
	joined := Ref{Root: a.Root, Path: slices.Clone(a.Path), Conditional: a.Conditional && b.Conditional}
	for i := range joined.Path {
		joined.Path[i].Optional = a.Path[i].Optional && b.Path[i].Optional
		joined.Optional = joined.Optional || joined.Path[i].Optional
	}
	return joined
}
