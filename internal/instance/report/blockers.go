package report

import "slices"

// NewBlockers returns the blockers that were not reported before, have another root cause now,
// or aren't in progress any more.
func NewBlockers(previous, current []Blocker) []Blocker {
	var out []Blocker
	for _, b := range current {
		known := func(old Blocker) bool {
			oldCause, cause := old.RootCause(), b.RootCause()
			return old.Object == b.Object && old.Reason == b.Reason && oldCause.Object == cause.Object && oldCause.Reason == cause.Reason &&
				(cause.InProgress || !oldCause.InProgress)
		}
		if !slices.ContainsFunc(previous, known) {
			out = append(out, b)
		}
	}
	return out
}
