package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
)

func TestPanicsAreReported(t *testing.T) {
	cases := map[string]struct {
		pass func(object.Key)
		want string
		hide string
	}{
		"The text of a mistake in the program": {
			pass: func(object.Key) { nothing()["x"] = 1 },
			want: "assignment to entry in nil map",
		},
		"Of a value its type alone, for it may hold what a Secret holds": {
			pass: func(object.Key) { panic("hunter2") },
			want: "panic with a string", hide: "hunter2",
		},
		"Of an error its type alone": {
			pass: func(object.Key) { panic(errors.New("hunter2")) },
			want: "panic with a *errors.errorString", hide: "hunter2",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := recoverPanics(t.Context(), &witness{pass: tc.pass}, key("a"))
			if out.Err == nil {
				t.Fatal("a panic is no failure")
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

// nothing is a map that a program forgot to make.
func nothing() map[string]int { return nil }

func TestReconcileEventContainsItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var passes []reconcile.Run
		e := engineOver(newWorld(0), Config{Workers: 1, Observe: func(p reconcile.Run) { passes = append(passes, p) }})
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
		if len(passes) != 1 {
			t.Fatalf("want one pass, got %v", passes)
		}
		if p := passes[0]; p.Kind != widget || p.Key != widgetKey(0) || p.Waited != time.Minute || p.Took != time.Second || p.RequeueAfter != time.Hour {
			t.Errorf("the reported run is %+v", p)
		}
	})
}
