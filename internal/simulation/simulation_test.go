package simulation

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

var (
	errTest  = errors.New("the API server is unavailable")
	appKey   = object.Key{Group: "kro.run", Kind: "App", Namespace: "prod", Name: "web"}
	childKey = object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "web"}
)

func TestAwaitIdle(t *testing.T) {
	cases := map[string]struct {
		reason string
		// at returns the activity of the controllers after a time.
		at        func(since time.Duration) (pending int, requests uint64, idle bool, serving error)
		ends      error
		ended     bool
		cancels   bool
		unsettled bool
		fails     string
		took      time.Duration
	}{
		"nothing to do": {
			reason: "it waits for an interval without activity",
			at:     func(time.Duration) (int, uint64, bool, error) { return 0, 0, true, nil },
			took:   time.Second,
		},
		"requests are made": {
			reason: "each restarts the interval",
			at: func(since time.Duration) (int, uint64, bool, error) {
				return 0, uint64(min(since, 3*time.Second) / (500 * time.Millisecond)), true, nil
			},
			took: 4 * time.Second,
		},
		"a request is in flight":            {reason: "the controllers are busy", at: func(since time.Duration) (int, uint64, bool, error) { return 1, 0, true, nil }, unsettled: true, took: time.Minute},
		"an object is queued":               {reason: "the controllers are busy", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, false, nil }, unsettled: true, took: time.Minute},
		"the controllers never start":       {reason: "the error says why", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, true, errTest }, fails: "after 1m0s: the API server is unavailable", took: time.Minute},
		"the controllers fail":              {reason: "the error says why", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, true, errTest }, ended: true, ends: errTest, fails: "the API server is unavailable"},
		"the controllers end by themselves": {reason: "they should run until the plan is complete", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, true, errTest }, ended: true, fails: "the controllers ended"},
		"the context ends":                  {reason: "it returns at once", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, true, errTest }, cancels: true, fails: "context canceled"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				a := activity{
					serving: func() error { _, _, _, err := tc.at(time.Since(began)); return err },
					busy:    func() (int, uint64) { pending, requests, _, _ := tc.at(time.Since(began)); return pending, requests },
					idle:    func(time.Duration) bool { _, _, idle, _ := tc.at(time.Since(began)); return idle },
					quiet:   quietPeriod,
				}
				ended := make(chan error, 1)
				if tc.ended {
					ended <- tc.ends
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.cancels {
					cancel()
				}
				unsettled, err := awaitIdle(ctx, a, ended, time.Minute, time.Minute)
				if unsettled != tc.unsettled || (err == nil) != (tc.fails == "") || err != nil && err.Error() != tc.fails {
					t.Errorf("%s: unsettled %t, %v", tc.reason, unsettled, err)
				}
				if took := time.Since(began); took < tc.took || took > tc.took+2*pollInterval {
					t.Errorf("%s: it took %s", tc.reason, took)
				}
				if tc.ended && len(ended) != 1 {
					t.Error("the end of the controllers is lost for other readers")
				}
			})
		})
	}
}

func TestAPlanIsRefusedUnderAHold(t *testing.T) {
	c := fakekube.New()
	if err := RefuseHeld(t.Context(), c); err != nil {
		t.Error(err)
	}
	c.Add(fakekube.Parse("{apiVersion: espalier.dev/v1alpha1, kind: Hold, metadata: {name: maintenance}}"))
	if err := RefuseHeld(t.Context(), c); err == nil || !strings.Contains(err.Error(), "Hold maintenance") {
		t.Errorf("got %v", err)
	}
	c.Before = func(string) error { return errTest }
	if err := RefuseHeld(t.Context(), c); err != nil {
		t.Errorf("Holds cannot be listed: got %v", err)
	}
}

func TestTheLastFailureOfEachObjectIsRecorded(t *testing.T) {
	o := &Failures{}
	fail := func(key object.Key, err error) {
		o.Observe(reconcile.Run{Key: key, Result: reconcile.Result{Err: err}})
	}
	fail(appKey, errTest)
	fail(childKey, errTest)
	fail(childKey, nil)
	fail(object.Key{Name: "ending"}, context.Canceled)
	if len(o.failed) != 1 || o.failed[appKey] == "" {
		t.Errorf("got %v", o.failed)
	}
}
