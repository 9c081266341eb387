package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/object"
)

// History is what earlier passes over an instance know and a look at it can't
// tell. Nothing rests on it: losing it costs a request or two.
type History struct {
	Tolerated   Tolerated
	Losses      Losses
	Refusals    Refusals
	Inspections Inspections
}

// Losses are the fields of ours that another manager has taken over of late.
type Losses map[Loss]Contest

// Loss names a field of a child that another manager has taken over.
type Loss struct {
	Child types.UID
	Field object.Path
}

// Contest is what is known of the managers' writes to one field.
type Contest struct {
	// TakenBack are the last times at which the field was taken back.
	TakenBack []time.Time
	// Declared says that it was left to the other manager for a while. Written is when that
	// manager's last write was noticed, and Seen the digest of what it wrote.
	Declared bool
	Written  time.Time
	Seen     string
}

// Two managers that fight over a field are not hot-looped. A field that was taken back so
// often in the window is contested: from then on it is taken back only when the other
// manager has been quiet for a while, and counts as contested until it has stayed ours for
// as long.
//
// Whoever makes a field contested writes more often than window / losses. Being quiet and
// staying ours take as long together, so that what is told doesn't change between the
// writes of a manager that goes on.
const (
	contestWindow = time.Minute
	contestLosses = 3
	contestQuiet  = contestWindow / contestLosses / 2
)

// TookBack returns the losses with those of now, and without those that are too
// old to count.
func (l Losses) TookBack(child types.UID, fields []object.Path, now time.Time) Losses {
	out := l.recent(now)
	for _, field := range fields {
		c := out[Loss{child, field}]
		times := append(slices.Clone(c.TakenBack), now)
		c.TakenBack, c.Seen = times[max(0, len(times)-contestLosses):], ""
		out[Loss{child, field}] = c
	}
	return out
}

// Left returns the losses with what a step found that leaves contested fields to another
// manager for now.
func (l Losses) Left(step Step, now time.Time) Losses {
	if step.Action != Defer || len(step.Contested) == 0 || len(step.Lost) == 0 {
		return l
	}
	out, child := l.recent(now), step.Current.GetUID()
	for _, field := range step.Contested {
		c := out[Loss{child, field}]
		c.Written, c.Seen = c.written(step.Current, field, now)
		c.Declared = true
		out[Loss{child, field}] = c
	}
	return out
}

func (l Losses) recent(now time.Time) Losses {
	out := Losses{}
	for key, c := range l {
		if now.Sub(c.last()) < contestWindow {
			out[key] = c
		}
	}
	return out
}

// last is when something was last known of the field.
func (c Contest) last() time.Time {
	last := c.Written
	if n := len(c.TakenBack); n > 0 && c.TakenBack[n-1].After(last) {
		last = c.TakenBack[n-1]
	}
	return last
}

// written is when the other manager last wrote the field that it has now, and what.
func (c Contest) written(o *unstructured.Unstructured, field object.Path, now time.Time) (at time.Time, digest string) {
	digest = FieldsDigest(o, []object.Path{field})
	if c.Seen != digest {
		return now, digest
	}
	return c.Written, digest
}

// isContested says whether the field was lost so often that it is better left for a while.
func (c Contest) isContested(now time.Time) bool {
	if c.Declared && now.Sub(c.last()) < contestWindow {
		return true
	}
	recent := slices.DeleteFunc(slices.Clone(c.TakenBack), func(t time.Time) bool { return now.Sub(t) >= contestWindow })
	return len(recent) >= contestLosses
}

// leaveContested turns a correction into a wait while another manager keeps writing a
// field of it.
func leaveContested(step *Step, losses Losses, now time.Time) {
	var until time.Time
	for _, field := range step.Lost {
		c := losses[Loss{step.Current.GetUID(), field}]
		if !c.isContested(now) {
			continue
		}
		step.Contested = append(step.Contested, field)
		if at, _ := c.written(step.Current, field, now); at.Add(contestQuiet).After(until) {
			until = at.Add(contestQuiet)
		}
	}
	if now.Before(until) {
		step.holdContested(until.Sub(now))
	}
}

// staysContested has fields that were contested until a moment ago count as such until
// they have stayed ours for a while.
func staysContested(step *Step, losses Losses, now time.Time) bool {
	var until time.Time
	for key, c := range losses {
		if n := len(c.TakenBack); key.Child == step.Current.GetUID() && c.Declared && n > 0 && c.isContested(now) {
			step.Contested = append(step.Contested, key.Field)
			if end := c.TakenBack[n-1].Add(contestQuiet); end.After(until) {
				until = end
			}
		}
	}
	slices.Sort(step.Contested)
	if !now.Before(until) {
		step.Contested = nil
		return false
	}
	step.holdContested(until.Sub(now))
	return true
}

func (s *Step) holdContested(retry time.Duration) {
	s.Action, s.Retry = Defer, retry
	s.Problem = Problem{
		Reason: DriftContested,
		Message: fmt.Sprintf("another manager keeps overwriting %s of %s; it is set back when that manager has stopped for %s",
			s.Contested[0], object.KeyOf(s.Current), contestQuiet),
	}
}
