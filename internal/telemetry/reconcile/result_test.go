package reconcile_test

import (
	"errors"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

func TestResults(t *testing.T) {
	failure := errors.New("no")
	cases := map[string]struct {
		out   reconcile.Result
		final bool
		after time.Duration
		err   error
	}{
		"The zero value is not final":               {reconcile.Result{}, false, 0, nil},
		"Done ends it":                              {reconcile.Done(), true, 0, nil},
		"RequeueAfter ends it and asks for another": {reconcile.RequeueAfter(time.Second), true, time.Second, nil},
		"RequeueAfter 0 ends it too":                {reconcile.RequeueAfter(0), true, 0, nil},
		"Fail ends it with an error":                {reconcile.Fail(failure), true, 0, failure},
		"OrDone ends it":                            {reconcile.Result{}.OrDone(), true, 0, nil},
		"OrDone keeps an end":                       {reconcile.RequeueAfter(time.Second).OrDone(), true, time.Second, nil},
		"FailAfter says when to try again":          {reconcile.FailAfter(failure, time.Minute), true, time.Minute, failure},
	}
	for name, tc := range cases {
		if tc.out.IsFinal() != tc.final || tc.out.RequeueAfter != tc.after || !errors.Is(tc.out.Err, tc.err) {
			t.Errorf("%s: got %+v", name, tc.out)
		}
	}
}
