package instance

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
)

type loss struct {
	child types.UID
	field object.Path
}

// Two managers that fight over a field are not hot-looped: after so many losses
// in the window, ours is taken back only once a window.
const (
	contestWindow = time.Minute
	contestLosses = 3
)

// lost notes that fields of a child were taken over, and says when each was
// contested so often that it is better left for a while: until when, and which.
func (m *memory) lost(child types.UID, fields []object.Path, now time.Time) (contested []object.Path, until time.Time) {
	for _, field := range fields {
		times := slices.DeleteFunc(m.losses[loss{child, field}], func(t time.Time) bool { return now.Sub(t) >= contestWindow })
		if len(times) >= contestLosses {
			contested = append(contested, field)
			if end := times[0].Add(contestWindow); until.IsZero() || end.After(until) {
				until = end
			}
		}
	}
	return contested, until
}

// tookBack notes that fields of a child were taken back.
func (m *memory) tookBack(child types.UID, fields []object.Path, now time.Time) {
	if m.losses == nil {
		m.losses = map[loss][]time.Time{}
	}
	for _, field := range fields {
		key := loss{child, field}
		times := append(m.losses[key], now)
		m.losses[key] = times[max(0, len(times)-contestLosses):]
	}
}

// leaveContested turns a correction into a wait when the same field has been
// lost too often of late.
func leaveContested(v *visit, step *plan.Step) bool {
	contested, until := v.memory.lost(step.Current.GetUID(), step.Lost, v.facts.Now)
	if len(contested) == 0 {
		return false
	}
	step.Action = plan.Hold
	step.Problem = plan.Problem{
		Reason: plan.DriftContested,
		Message: fmt.Sprintf("%s of %s is written by somebody else again and again; it is taken back %d times a minute at most until that ends",
			contested[0], object.KeyOf(step.Current), contestLosses),
	}
	step.Retry = until.Sub(v.facts.Now) + time.Second
	return true
}
