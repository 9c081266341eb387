package queue

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

func TestPanicsAreReported(t *testing.T) {
	cases := map[string]struct {
		do   func(object.Key)
		want string
		hide string
	}{
		"A runtime error with its text": {
			do:   func(object.Key) { nothing()["x"] = 1 },
			want: "assignment to entry in nil map",
		},
		"A value with its type alone: it may come from a Secret": {
			do:   func(object.Key) { panic("hunter2") },
			want: "panic with a string", hide: "hunter2",
		},
		"An error with its type alone": {
			do:   func(object.Key) { panic(errors.New("hunter2")) },
			want: "panic with a *errors.errorString", hide: "hunter2",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := recoverPanics(t.Context(), &witness{do: tc.do}, key("a"))
			if out.Err == nil {
				t.Fatal("a panic is not an error")
			}
			text := out.Err.Error()
			if !strings.Contains(text, tc.want) || !strings.Contains(text, "worker_test.go") {
				t.Errorf("want %q and the stack, got %s", tc.want, text)
			}
			if tc.hide != "" && strings.Contains(text, tc.hide) {
				t.Errorf("the message contains the value: %s", text)
			}
		})
	}
}

// nothing returns a nil map.
func nothing() map[string]int { return nil }

func TestReconcileEventContainsItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs []reconcile.Run
		e := engineOver(newWorld(0), Config{Workers: 1, Observe: func(p reconcile.Run) { runs = append(runs, p) }})
		c := e.Start(widget, reconciles(func(context.Context, object.Key) reconcile.Result {
			<-time.After(time.Second)
			return reconcile.RequeueAfter(time.Hour)
		}), nil)
		c.Enqueue(widgetKey(0), watch.Background)
		<-time.After(time.Minute)
		c.Enqueue(widgetKey(0), watch.Urgent)
		end := run(t, e)
		<-time.After(time.Minute)
		end()
		if len(runs) != 1 {
			t.Fatalf("want one reconcile, got %v", runs)
		}
		if p := runs[0]; p.Kind != widget || p.Key != widgetKey(0) || p.Waited != time.Minute || p.Took != time.Second || p.RequeueAfter != time.Hour {
			t.Errorf("the reported run is %+v", p)
		}
	})
}

// TestWaitingForAnOperationKeepsTheBackoff has an external API that accepts an operation, works on it for a
// second, and lets it fail: what was accepted is no success.
func TestWaitingForAnOperationKeepsTheBackoff(t *testing.T) {
	cases := map[string]struct {
		waiting reconcile.Result
		longest bool
		reason  string
	}{
		"The operation is waited for": {reconcile.Pending(time.Second), true, "none has succeeded"},
		"The operation succeeds":      {reconcile.RequeueAfter(time.Second), false, "each failure is the first one after a success"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onWorld(t, 1, func(_ *world, e *Engine) {
				var mu sync.Mutex
				var failedAt time.Time
				var last time.Duration
				made := 0
				e.Start(widget, reconciles(func(context.Context, object.Key) reconcile.Result {
					mu.Lock()
					defer mu.Unlock()
					if made++; made%2 == 1 {
						if !failedAt.IsZero() {
							last = time.Since(failedAt)
						}
						return tc.waiting
					}
					failedAt = time.Now()
					return reconcile.Fail(errors.New("the operation has failed"))
				}), nil)
				<-time.After(time.Hour)
				mu.Lock()
				defer mu.Unlock()
				if got := last >= longestDelay/2; got != tc.longest {
					t.Errorf("after %d reconciles in an hour the delay after a failure is %s: %s", made, last, tc.reason)
				}
			})
		})
	}
}
