package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// maxBlockers bounds the blockers in the status. The intervals are how often the status is
// written while only the count changes, or the list of blockers.
const (
	maxBlockers     = 10
	countInterval   = 5 * time.Second
	blockerInterval = 200 * time.Millisecond
)

// What isn't known now stays as it was reported.
func (t *teardown) deletionStatus() report.Deletion {
	before := t.Reported.Deletion
	if t.incomplete && len(t.blockers) == 0 && before != nil {
		return *before
	}
	d := report.Deletion{StartedAt: report.At(t.Instance.GetDeletionTimestamp().Time), Policy: t.Policy}
	if before != nil {
		d.Total, d.Waves, d.LeftBehind = before.Total, before.Waves, t.mergeLeftBehind(before.LeftBehind)
	} else {
		d.LeftBehind = t.leftBehind
	}
	d.Blocked, d.Blockers = int64(len(t.blockers)), firstBlockers(t.blockers)
	d.LeftBehind = firstBlockers(d.LeftBehind)
	if t.incomplete && before != nil {
		d.Removed, d.Remaining, d.Percent, d.Progress, d.Wave, d.Left = before.Removed, before.Remaining, before.Percent, before.Progress, before.Wave, before.Left
		return d
	}
	for _, b := range t.leftBehind {
		if b.Object.Name != "" {
			d.Left++
		}
	}
	ranks := map[int]bool{}
	for _, c := range t.remaining {
		ranks[c.rank] = true
	}
	d.Remaining = int64(len(t.remaining))
	d.Total, d.Waves = max(d.Total, d.Remaining+d.Left), max(d.Waves, int64(len(ranks)))
	d.Removed = max(0, d.Total-d.Remaining-d.Left)
	switch {
	case d.Total > 0:
		d.Percent = d.Removed * 100 / d.Total
	case !t.incomplete:
		d.Percent = 100
	}
	if !t.incomplete || d.Total > 0 {
		d.Progress = fmt.Sprintf("%d/%d", d.Removed, d.Total)
	}
	d.Wave = min(d.Waves, d.Waves-int64(len(ranks))+1)
	return d
}

// Blockers that need an action of a user come before those that are only in progress.
func firstBlockers(blockers []report.Blocker) []report.Blocker {
	out := slices.Clone(blockers)
	slices.SortStableFunc(out, func(a, b report.Blocker) int { return inProgressRank(a) - inProgressRank(b) })
	return slices.Clip(out[:min(len(out), maxBlockers)])
}

func inProgressRank(b report.Blocker) int {
	if b.RootCause().InProgress {
		return 1
	}
	return 0
}

// An object that is awaited again, because its deletion isn't forced any more, is not left behind.
func (t *teardown) mergeLeftBehind(before []report.Blocker) []report.Blocker {
	out := slices.Clone(t.leftBehind)
	for _, old := range before {
		same := func(b report.Blocker) bool { return b.Object == old.Object }
		back := slices.ContainsFunc(t.remaining, func(c target) bool { return report.ObjectOf(c) == old.Object })
		if !back && !slices.ContainsFunc(t.blockers, same) && !slices.ContainsFunc(out, same) {
			out = append(out, old)
		}
	}
	return out
}

// A change of the count is reported at intervals, a first blocker at once.
func (t *teardown) reportDelay(before, now report.Deletion) time.Duration {
	since := t.Now.Sub(t.History.ReportedAt)
	switch {
	case sameDigest(before, now), before.Policy != now.Policy, len(before.Blockers) == 0 && len(now.Blockers) > 0, before.Left != now.Left:
		return 0
	case sameDigest(before.Blockers, now.Blockers):
		return countInterval - since
	}
	return blockerInterval - since
}

// Values are compared as the status holds them.
func sameDigest(a, b any) bool { return object.Digest(a) == object.Digest(b) }
