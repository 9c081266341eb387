package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/object"
)

// History is what earlier passes over an instance know and a look at it can't
// tell. Nothing rests on it: losing it costs a request or two.
type History struct {
	Tolerated Tolerated
	Losses    Losses
	Refusals  Refusals
	Sightings Sightings
}

// Losses are when fields of ours were last taken back from somebody else, by child
// and field.
type Losses map[Loss][]time.Time

// Loss names a field of a child that somebody else has taken over.
type Loss struct {
	Child types.UID
	Field object.Path
}

// Two managers that fight over a field are not hot-looped: after so many losses
// in the window, ours is taken back only once a window.
const (
	contestWindow = time.Minute
	contestLosses = 3
)

// TookBack returns the losses with those of now, and without those that are too
// old to count.
func (l Losses) TookBack(child types.UID, fields []object.Path, now time.Time) Losses {
	out := Losses{}
	for key, times := range l {
		if now.Sub(times[len(times)-1]) < contestWindow {
			out[key] = times
		}
	}
	for _, field := range fields {
		key := Loss{child, field}
		times := append(slices.Clone(out[key]), now)
		out[key] = times[max(0, len(times)-contestLosses):]
	}
	return out
}

// contested says which of a child's fields were lost so often that they are better
// left for a while, and until when.
func (l Losses) contested(child types.UID, fields []object.Path, now time.Time) (contested []object.Path, until time.Time) {
	for _, field := range fields {
		times := slices.Clone(l[Loss{child, field}])
		times = slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) >= contestWindow })
		if len(times) >= contestLosses {
			contested = append(contested, field)
			if end := times[0].Add(contestWindow); until.IsZero() || end.After(until) {
				until = end
			}
		}
	}
	return contested, until
}

// leaveContested turns a correction into a wait when the same field has been lost
// too often of late.
func leaveContested(step *Step, losses Losses, now time.Time) {
	contested, until := losses.contested(step.Current.GetUID(), step.Lost, now)
	if len(contested) == 0 {
		return
	}
	step.Action = Hold
	step.Problem = Problem{
		Reason: DriftContested,
		Message: fmt.Sprintf("%s of %s is written by somebody else again and again; it is taken back %d times a minute at most until that ends",
			contested[0], object.KeyOf(step.Current), contestLosses),
	}
	step.Retry = until.Sub(now) + time.Second
}
