package report

import "slices"

// NewBlockers returns the blockers that were not reported before, have another root cause now,
// or aren't in progress any more.
func NewBlockers(before, after []Blocker) []Blocker {
	var out []Blocker
	for _, b := range after {
		known := func(old Blocker) bool {
			was, is := old.RootCause(), b.RootCause()
			return old.Object == b.Object && old.Reason == b.Reason && was.Object == is.Object && was.Reason == is.Reason && (is.InProgress || !was.InProgress)
		}
		if !slices.ContainsFunc(before, known) {
			out = append(out, b)
		}
	}
	return out
}
