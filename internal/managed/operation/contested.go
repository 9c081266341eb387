package operation

import (
	"fmt"
	"time"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

const (
	// maxReverted is how often in a row what an update has set may be changed back before the update counts as
	// contested.
	maxReverted = 2
	// contestedRetry is after what time a contested update is made once more.
	contestedRetry = time.Hour
)

func countReverted(before, ended *binding.BindingEnded) int64 {
	if before == nil || ended.Verb != string(external.Update) || before.Verb != ended.Verb || before.Request != ended.Request {
		return 0
	}
	return before.Reverted + 1
}

// isContested reports whether the last updates, which were the same as the next one, have all succeeded and were
// changed back: by the external API, which does not keep the value, or by another client. To make the same
// update in each reconcile helps neither.
func (s State) isContested() bool {
	last := s.Binding.Ended
	return last.Verb == string(external.Update) && last.Reverted+1 >= maxReverted && s.Now.Sub(last.At.Time) < contestedRetry
}

// It ends the reconcile without the update.
func (s State) reportContested() Step {
	last := s.Binding.Ended
	message := fmt.Sprintf("%d updates have succeeded, and the external API or another client has changed back what they set: %s. The next one is made at %s, or when the spec changes",
		last.Reverted+1, s.Observed.Diff, last.At.Add(contestedRetry).UTC().Format(time.RFC3339))
	return finish(resource.Contested, message, min(s.Resource.PollInterval, contestedRetry)).with(s.readyCondition())
}

// It counts from the beginning again, because the external resource is as it should be.
func (s State) settleContest() Step {
	return s.updateBinding(func(b *binding.BindingSpec) { b.Ended.Reverted = 0 })
}
