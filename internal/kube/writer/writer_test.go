package writer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// fake is an API server with one object, caches, and a recorder of events; it records the calls.
type fake struct {
	err   error // of the next write
	calls []string
}

func (f *fake) call(format string, args ...any) {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fake) answer(o *unstructured.Unstructured, change func(*unstructured.Unstructured)) (*unstructured.Unstructured, error) {
	if f.err != nil {
		return nil, f.err
	}
	out := o.DeepCopy()
	out.SetResourceVersion("2")
	change(out)
	return out, nil
}

func (f *fake) SetFinalizers(_ context.Context, o *unstructured.Unstructured, finalizers []string, manager string) (*unstructured.Unstructured, error) {
	f.call("set finalizers %s as %s", strings.Join(finalizers, ","), manager)
	return f.answer(o, func(o *unstructured.Unstructured) { o.SetFinalizers(finalizers) })
}

func (f *fake) RemoveFinalizers(_ context.Context, o *unstructured.Unstructured, finalizers []string, manager string) (*unstructured.Unstructured, error) {
	f.call("remove finalizers %s as %s", strings.Join(finalizers, ","), manager)
	return f.answer(o, func(o *unstructured.Unstructured) {
		o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(has string) bool { return slices.Contains(finalizers, has) }))
	})
}

func (f *fake) WriteStatus(_ context.Context, o *unstructured.Unstructured, status map[string]any, manager string) (*unstructured.Unstructured, error) {
	f.call("write status %v as %s", status, manager)
	return f.answer(o, func(o *unstructured.Unstructured) { o.Object["status"] = status })
}

func (f *fake) Record(o *unstructured.Unstructured, writer watch.Subscriber) {
	f.call("record %s at %s for %s", o.GetName(), o.GetResourceVersion(), writer.Key.Name)
}

func (f *fake) RecordGone(_ schema.GroupVersionKind, _, name, uid string, _ watch.Subscriber) {
	f.call("record that %s (%s) is gone", name, uid)
}

func (f *fake) Event(_ runtime.Object, severity telemetry.Severity, reason, message string) {
	f.call("event %v %s: %s", severity, reason, message)
}

var widgets = schema.GroupResource{Group: "example.com", Resource: "widgets"}

func TestWrites(t *testing.T) {
	const f1, f2 = "example.com/one", "example.com/two"
	add := func(w writer.Writer, o *writer.Object) reconcile.Result {
		return w.AddFinalizers(context.Background(), o, f1, f2)
	}
	remove := func(w writer.Writer, o *writer.Object) reconcile.Result {
		return w.RemoveFinalizers(context.Background(), o, f1)
	}
	status := func(w writer.Writer, o *writer.Object) reconcile.Result {
		_, out := w.WriteStatus(context.Background(), o, map[string]any{"phase": "new"})
		return out
	}
	stale := apierrors.NewConflict(widgets, "w", errors.New("changed"))
	forbidden := apierrors.NewForbidden(widgets, "w", errors.New("no role"))
	for name, tc := range map[string]struct {
		do         func(writer.Writer, *writer.Object) reconcile.Result
		finalizers []string
		deleting   bool
		err        error
		calls      []string
		final      bool
		fails      bool
	}{
		"missing finalizers are added to the others": {
			do: add, finalizers: []string{"other", f1},
			calls: []string{"set finalizers other," + f1 + "," + f2 + " as manager", "record w at 2 for w"},
		},
		"nothing is sent when no finalizer is missing": {do: add, finalizers: []string{f2, f1}},
		"a stale write waits for its event": {
			do: add, err: stale, final: true,
			calls: []string{"set finalizers " + f1 + "," + f2 + " as manager"},
		},
		"a permanent refusal is recorded as an event": {
			do: status, err: forbidden, final: true, fails: true,
			calls: []string{"write status map[phase:new] as status-manager", "event Warning FailedStatusUpdate: cannot write the status, and it is out of date"},
		},
		"an error without an answer is not recorded": {
			do: remove, finalizers: []string{f1}, err: errors.New("connection refused"), final: true, fails: true,
			calls: []string{"remove finalizers " + f1 + " as manager"},
		},
		"nothing is sent when the finalizer is not on the object": {do: remove, finalizers: []string{"other"}},
		"a deleted object with other finalizers still exists": {
			do: remove, finalizers: []string{f1, "other"}, deleting: true,
			calls: []string{"remove finalizers " + f1 + " as manager", "record w at 2 for w"},
		},
		"a deleted object without finalizers is gone": {
			do: remove, finalizers: []string{f1}, deleting: true,
			calls: []string{"remove finalizers " + f1 + " as manager", "record that w (uid) is gone"},
		},
		"an object that is not deleted still exists without finalizers": {
			do: remove, finalizers: []string{f1},
			calls: []string{"remove finalizers " + f1 + " as manager", "record w at 2 for w"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "status": map[string]any{"phase": "old"}}}
			u.SetName("w")
			u.SetUID("uid")
			u.SetFinalizers(tc.finalizers)
			if tc.deleting {
				now := metav1.Now()
				u.SetDeletionTimestamp(&now)
			}
			f, refusals := &fake{err: tc.err}, &telemetry.WriteFailures{}
			o := &writer.Object{Unstructured: u, Refusals: refusals}
			out := tc.do(writer.Writer{Cluster: f, Caches: f, Events: f, Manager: "manager", StatusManager: "status-manager"}, o)
			if out.IsFinal() != tc.final || (out.Err != nil) != tc.fails {
				t.Errorf("final: %t, error: %v", out.IsFinal(), out.Err)
			}
			if !slices.EqualFunc(f.calls, tc.calls, strings.HasPrefix) {
				t.Errorf("want\n  %s\ngot\n  %s", strings.Join(tc.calls, "\n  "), strings.Join(f.calls, "\n  "))
			}
		})
	}
}

func TestARefusalIsRecordedOnceUntilAWriteSucceeds(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
	f, refusals := &fake{}, &telemetry.WriteFailures{}
	w := writer.Writer{Cluster: f, Caches: f, Events: f}
	events := func() (n int) {
		for _, call := range f.calls {
			if strings.HasPrefix(call, "event") {
				n++
			}
		}
		return n
	}
	for i, step := range []struct {
		err  error
		want int
	}{
		{apierrors.NewForbidden(widgets, "w", errors.New("no role")), 1},
		{apierrors.NewForbidden(widgets, "w", errors.New("no role")), 1},
		{nil, 1},
		{apierrors.NewForbidden(widgets, "w", errors.New("no role")), 2},
	} {
		f.err = step.err
		w.WriteStatus(context.Background(), &writer.Object{Unstructured: u, Refusals: refusals}, map[string]any{"n": int64(i)})
		if got := events(); got != step.want {
			t.Errorf("attempt %d: %d events, want %d", i, got, step.want)
		}
	}
}
