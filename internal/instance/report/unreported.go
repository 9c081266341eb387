package report

import "slices"

// Unreported are the blockers that weren't reported before, have another cause now, or aren't in progress
// any more.
func Unreported(before, after []Blocker) []Blocker {
	var out []Blocker
	for _, b := range after {
		known := func(old Blocker) bool {
			was, is := old.Deepest(), b.Deepest()
			return old.Object == b.Object && old.Reason == b.Reason && was.Object == is.Object && was.Reason == is.Reason && (is.InProgress || !was.InProgress)
		}
		if !slices.ContainsFunc(before, known) {
			out = append(out, b)
		}
	}
	return out
}
