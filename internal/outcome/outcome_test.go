package outcome_test

import (
	"errors"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/outcome"
)

func TestOutcomes(t *testing.T) {
	failure := errors.New("no")
	cases := map[string]struct {
		out     outcome.Outcome
		settled bool
		after   time.Duration
		err     error
	}{
		"The zero value lets a story go on":      {outcome.Outcome{}, false, 0, nil},
		"Done ends it":                           {outcome.Done(), true, 0, nil},
		"Wait ends it and asks for another pass": {outcome.Wait(time.Second), true, time.Second, nil},
		"Waiting for no time at all ends it too": {outcome.Wait(0), true, 0, nil},
		"Fail ends it with an error":             {outcome.Fail(failure), true, 0, failure},
		"FailUntil says when to try again":       {outcome.FailUntil(failure, time.Minute), true, time.Minute, failure},
	}
	for name, tc := range cases {
		if tc.out.Settled() != tc.settled || tc.out.After != tc.after || !errors.Is(tc.out.Err, tc.err) {
			t.Errorf("%s: got %+v", name, tc.out)
		}
	}
}
