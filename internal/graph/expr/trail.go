package expr

import "slices"

// tracker records what an evaluation looked for and didn't find. Expressions
// are evaluated without one; only when that failed are they evaluated again, to
// learn why.
type tracker struct {
	misses []Ref
	nulls  []Ref
	// generous makes lists look longer than they are. CEL compares an index
	// with the size by itself and reports one that is too large without asking
	// the list, which therefore doesn't see that it was asked for too much.
	generous bool
}

// generosity is how many items a list pretends to have beyond its own. Library
// functions loop over them, so it is small.
const generosity = 256

// trail is the path that led to a value. A nil trail records nothing.
type trail struct {
	in   *tracker
	up   *trail
	root string
	step Step
}

func (t *trail) to(s Step) *trail {
	if t == nil {
		return nil
	}
	return &trail{in: t.in, up: t, step: s}
}

func (t *trail) ref() Ref {
	var path []Step
	for ; t.up != nil; t = t.up {
		path = append(path, t.step)
	}
	slices.Reverse(path)
	return Ref{Root: t.root, Path: path}
}

func (t *trail) miss(s Step) {
	if t != nil {
		t.in.misses = append(t.in.misses, t.ref().then(s))
	}
}

func (t *trail) null(s Step) {
	if t != nil {
		t.in.nulls = append(t.in.nulls, t.ref().then(s))
	}
}

func (t *trail) generosity() int {
	if t == nil || !t.in.generous {
		return 0
	}
	return generosity
}

// missing returns the paths that the expression needed and that weren't there,
// sorted, given the paths that it reads.
func (t *tracker) missing(reads []Ref) []Ref {
	var out []Ref
	for _, m := range t.misses {
		if !excused(m, reads) {
			out = append(out, m)
		}
	}
	for _, n := range t.nulls {
		if entered(n, reads) {
			out = append(out, n)
		}
	}
	return union(out)
}

// excused tells whether the expression copes with the path not being there:
// every read that leads through it is optional at its last step.
func excused(miss Ref, reads []Ref) bool {
	optional := false
	for _, r := range reads {
		if !r.begins(miss) {
			continue
		}
		if len(miss.Path) == 0 || !r.Path[len(miss.Path)-1].Optional {
			return false
		}
		optional = true
	}
	return optional
}

// entered tells whether the expression reads what is inside of a null.
func entered(null Ref, reads []Ref) bool {
	return slices.ContainsFunc(reads, func(r Ref) bool {
		return len(r.Path) > len(null.Path) && r.begins(null) && !r.Path[len(null.Path)].Optional
	})
}
