package expr

import "slices"

// tracker records the missing values that an evaluation reads. Expressions are evaluated
// without a tracker; after a failure they are evaluated again with one, to find the reason.
type tracker struct {
	misses []Ref
	nulls  []Ref
}

// trail is the path that led to a value. A nil trail records nothing.
type trail struct {
	tracker *tracker
	parent  *trail
	root    string
	step    Step
}

func (t *trail) child(s Step) *trail {
	if t == nil {
		return nil
	}
	return &trail{tracker: t.tracker, parent: t, step: s}
}

func (t *trail) ref() Ref {
	var path []Step
	for ; t.parent != nil; t = t.parent {
		path = append(path, t.step)
	}
	slices.Reverse(path)
	return Ref{Root: t.root, Path: path}
}

func (t *trail) recordMiss(s Step) {
	if t != nil {
		t.tracker.misses = append(t.tracker.misses, t.ref().child(s))
	}
}

func (t *trail) recordNull(s Step) {
	if t != nil {
		t.tracker.nulls = append(t.tracker.nulls, t.ref().child(s))
	}
}

// missing returns, sorted, the missing paths that the expression needs. reads are the paths
// that it reads. What several items of a list lack is one path, such as vpcs[*].status.id.
func (t *tracker) missing(reads []Ref) []Ref {
	var out []Ref
	for _, m := range t.misses {
		if !isOptionalRead(m, reads) {
			out = append(out, m)
		}
	}
	for _, n := range t.nulls {
		if isReadInside(n, reads) {
			out = append(out, n)
		}
	}
	return mergeItems(mergeRefs(out), reads)
}

// mergeItems replaces paths that differ only in items that a comprehension or a computed index reads by one path.
func mergeItems(missing, reads []Ref) []Ref {
	items := make([]Ref, len(missing))
	for i, m := range missing {
		items[i] = Ref{Root: m.Root, Path: slices.Clone(m.Path)}
		for j := range m.Path {
			isEach := func(r Ref) bool {
				return len(r.Path) > j && r.Path[j].Each && r.mayHavePrefix(Ref{Root: m.Root, Path: m.Path[:j+1]})
			}
			if m.Path[j].Name == "" && slices.ContainsFunc(reads, isEach) {
				items[i].Path[j] = Step{Each: true}
			}
		}
	}
	count := map[string]int{}
	for _, r := range items {
		count[r.String()]++
	}
	out := slices.Clone(missing)
	for i, r := range items {
		if count[r.String()] > 1 {
			out[i] = r
		}
	}
	return mergeRefs(out)
}

// isOptionalRead reports whether the expression handles the missing path: every read through it is optional at its
// last step.
func isOptionalRead(miss Ref, reads []Ref) bool {
	optional := false
	for _, r := range reads {
		if !r.mayHavePrefix(miss) {
			continue
		}
		if len(miss.Path) == 0 || !r.Path[len(miss.Path)-1].Optional {
			return false
		}
		optional = true
	}
	return optional
}

func isReadInside(null Ref, reads []Ref) bool {
	return slices.ContainsFunc(reads, func(r Ref) bool {
		return len(r.Path) > len(null.Path) && r.mayHavePrefix(null) && !r.Path[len(null.Path)].Optional
	})
}
