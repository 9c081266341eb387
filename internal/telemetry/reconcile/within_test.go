package reconcile_test

import (
	"errors"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

func TestWithinAsksForAnEarlierReconcile(t *testing.T) {
	failed := errors.New("failed")
	for name, tc := range map[string]struct {
		result reconcile.Result
		after  time.Duration
		want   time.Duration
	}{
		"nothing is to be done":     {reconcile.Done(), 0, 0},
		"no other reconcile is due": {reconcile.Done(), time.Second, time.Second},
		"a later one is due":        {reconcile.RequeueAfter(time.Minute), time.Second, time.Second},
		"an earlier one is due":     {reconcile.RequeueAfter(time.Second), time.Minute, time.Second},
		"a failure is retried":      {reconcile.Fail(failed), time.Second, 0},
	} {
		got := tc.result.Within(tc.after)
		if got.RequeueAfter != tc.want || !got.IsFinal() || !errors.Is(got.Err, tc.result.Err) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
