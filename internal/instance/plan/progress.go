package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// What a status tells at most, and how often it is written while only the count,
// or a list that has begun, changes.
const (
	mostBlockers  = 10
	countsEvery   = 5 * time.Second
	blockersEvery = 200 * time.Millisecond
)

// count is what there is to tell. What isn't known now is as it was told.
func (t *teardown) count() report.Deletion {
	before := t.Before.Deletion
	if t.unknown && len(t.blockers) == 0 && before != nil {
		return *before
	}
	d := report.Deletion{StartedAt: report.At(t.Instance.GetDeletionTimestamp().Time), Policy: t.Policy}
	if before != nil {
		d.Total, d.Waves, d.LeftBehind = before.Total, before.Waves, t.stillLeft(before.LeftBehind)
	} else {
		d.LeftBehind = t.left
	}
	d.Blocked, d.Blockers = int64(len(t.blockers)), first(t.blockers)
	d.LeftBehind = first(d.LeftBehind)
	if t.unknown && before != nil {
		d.Removed, d.Remaining, d.Percent, d.Progress, d.Wave, d.Left = before.Removed, before.Remaining, before.Percent, before.Progress, before.Wave, before.Left
		return d
	}
	for _, b := range t.left {
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
	case !t.unknown:
		d.Percent = 100
	}
	if !t.unknown || d.Total > 0 {
		d.Progress = fmt.Sprintf("%d/%d", d.Removed, d.Total)
	}
	d.Wave = min(d.Waves, d.Waves-int64(len(ranks))+1)
	return d
}

// first are the blockers that are told: those that somebody has to see to before those that are
// only in progress.
func first(blockers []report.Blocker) []report.Blocker {
	out := slices.Clone(blockers)
	slices.SortStableFunc(out, func(a, b report.Blocker) int { return patience(a) - patience(b) })
	return slices.Clip(out[:min(len(out), mostBlockers)])
}

func patience(b report.Blocker) int {
	if b.Deepest().InProgress {
		return 1
	}
	return 0
}

// stillLeft adds to what was left behind before what is left behind now; what
// waits for its end again, because nobody asks any more, is not left behind.
func (t *teardown) stillLeft(before []report.Blocker) []report.Blocker {
	out := slices.Clone(t.left)
	for _, old := range before {
		same := func(b report.Blocker) bool { return b.Object == old.Object }
		back := slices.ContainsFunc(t.remaining, func(c leaver) bool { return report.ObjectOf(c) == old.Object })
		if !back && !slices.ContainsFunc(t.blockers, same) && !slices.ContainsFunc(out, same) {
			out = append(out, old)
		}
	}
	return out
}

// notYet says how long to wait before telling: a change of the count is told every
// now and then, a first blocker at once.
func (t *teardown) notYet(before, now report.Deletion) time.Duration {
	since := t.Now.Sub(t.History.Reported)
	switch {
	case same(before, now), before.Policy != now.Policy, len(before.Blockers) == 0 && len(now.Blockers) > 0, before.Left != now.Left:
		return 0
	case same(before.Blockers, now.Blockers):
		return countsEvery - since
	}
	return blockersEvery - since
}

// same compares as the status holds it.
func same(a, b any) bool { return object.Digest(a) == object.Digest(b) }
