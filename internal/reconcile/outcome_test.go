package reconcile_test

import (
	"errors"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/reconcile"
)

func TestOutcomes(t *testing.T) {
	failure := errors.New("no")
	cases := map[string]struct {
		out     reconcile.Outcome
		settled bool
		after   time.Duration
		err     error
	}{
		"The zero value lets a story go on":      {reconcile.Outcome{}, false, 0, nil},
		"Done ends it":                           {reconcile.Done(), true, 0, nil},
		"Wait ends it and asks for another pass": {reconcile.Wait(time.Second), true, time.Second, nil},
		"Waiting for no time at all ends it too": {reconcile.Wait(0), true, 0, nil},
		"Fail ends it with an error":             {reconcile.Fail(failure), true, 0, failure},
		"FailUntil says when to try again":       {reconcile.FailUntil(failure, time.Minute), true, time.Minute, failure},
	}
	for name, tc := range cases {
		if tc.out.Settled() != tc.settled || tc.out.After != tc.after || !errors.Is(tc.out.Err, tc.err) {
			t.Errorf("%s: got %+v", name, tc.out)
		}
	}
}
