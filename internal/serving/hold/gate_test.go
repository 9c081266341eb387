package hold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

const (
	aHold = `
apiVersion: espalier.dev/v1alpha1
kind: Hold
metadata: {name: import-1, uid: hold-1}`
	anApp = `
apiVersion: example.org/v1
kind: App
metadata: {name: web, namespace: prod}`
)

var (
	holdKey = object.Key{Group: Kind.Group, Kind: Kind.Kind, Name: "import-1"}
	appKind = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "App"}
	appKey  = object.Key{Group: "example.org", Kind: "App", Namespace: "prod", Name: "web"}
)

// world is a cluster with a gate, and a reconciler of Apps behind that.
type world struct {
	*fakekube.Cluster
	gate       *Gate
	apps       queue.Reconciler
	reconciled int
	// during is called in each reconcile.
	during   func()
	enqueued []object.Key
	logged   []string
}

func newWorld(objects ...string) *world {
	w := &world{Cluster: fakekube.New(objects...)}
	w.Kinds[Kind.GroupKind()] = fakekube.Kind{ClusterScoped: true}
	w.gate = &Gate{
		Cluster: w.Client(), Hub: w, Now: func() time.Time { return time.Unix(1000, 0) },
		Enqueue: func(key object.Key) { w.enqueued = append(w.enqueued, key) },
		Log:     funcr.New(func(_, args string) { w.logged = append(w.logged, args) }, funcr.Options{}),
	}
	w.apps = w.gate.Wrap(appKind, w)
	return w
}

// Reconcile is that of what is behind the gate.
func (w *world) Reconcile(context.Context, object.Key) reconcile.Result {
	w.reconciled++
	if w.during != nil {
		w.during()
	}
	return reconcile.RequeueAfter(time.Hour)
}

func (w *world) hold(name string) {
	h := fakekube.Parse(aHold)
	h.SetName(name)
	w.Add(h)
	w.Notify(Kind, "", name)
}

func (w *world) release(name string) {
	w.Remove(object.Key{Group: Kind.Group, Kind: Kind.Kind, Name: name})
	w.Notify(Kind, "", name)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestNothingIsReconciledWhileThereIsAHold(t *testing.T) {
	w := newWorld(anApp)
	if !isClosed(w.gate.Watch()) {
		t.Error("Holds are known, and the channel of Watch is open")
	}
	if out := w.apps.Reconcile(t.Context(), appKey); w.reconciled != 1 || out.RequeueAfter != time.Hour {
		t.Errorf("without a Hold: %d reconciles, %+v", w.reconciled, out)
	}
	w.hold("first")
	w.hold("second")
	if out := w.apps.Reconcile(t.Context(), appKey); w.reconciled != 1 || out != reconcile.Done() {
		t.Errorf("with a Hold: %d reconciles, %+v", w.reconciled, out)
	}
	w.release("first")
	if len(w.enqueued) > 0 {
		t.Errorf("enqueued while there is another Hold: %v", w.enqueued)
	}
	w.release("second")
	w.release("second")
	if diff := cmp.Diff([]object.Key{appKey}, w.enqueued); diff != "" {
		t.Errorf("enqueued (-want +got):\n%s", diff)
	}
	if w.apps.Reconcile(t.Context(), appKey); w.reconciled != 2 {
		t.Error("it is not reconciled after the last Hold has gone")
	}
}

func TestNothingIsReconciledUntilHoldsAreKnown(t *testing.T) {
	cases := map[string]struct {
		state  watch.State
		reason string
	}{
		"being read": {watch.State{Phase: watch.Syncing}, ""},
		"forbidden":  {watch.State{Phase: watch.Unavailable, Reason: watch.Forbidden, Message: "cannot list holds"}, "cannot list holds"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(anApp)
			w.Kinds[Kind.GroupKind()] = fakekube.Kind{State: tc.state}
			known := w.gate.Watch()
			if w.apps.Reconcile(t.Context(), appKey); w.reconciled != 0 || isClosed(known) {
				t.Error("it is reconciled, or Holds are said to be known")
			}
			if got := w.gate.Unreadable(); got != tc.reason {
				t.Errorf("the reason is %q", got)
			}
			w.Kinds[Kind.GroupKind()] = fakekube.Kind{}
			w.Notify(Kind, "", "")
			if !isClosed(known) || w.gate.Unreadable() != "" || len(w.enqueued) != 1 {
				t.Errorf("once Holds are known: %t, %q, enqueued %v", isClosed(known), w.gate.Unreadable(), w.enqueued)
			}
		})
	}
}

func TestTheGateStaysAsItIsWhileHoldsAreUnreadable(t *testing.T) {
	for name, held := range map[string]bool{"with a Hold": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(anApp)
			w.gate.Watch()
			if held {
				w.hold("import-1")
			}
			w.Kinds[Kind.GroupKind()] = fakekube.Kind{State: watch.State{Phase: watch.Unavailable, Message: "cannot list holds"}}
			w.Notify(Kind, "", "")
			if w.apps.Reconcile(t.Context(), appKey); (w.reconciled == 0) != held {
				t.Errorf("%d reconciles", w.reconciled)
			}
		})
	}
}

func TestUnreadableHoldsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.Kinds[Kind.GroupKind()] = fakekube.Kind{State: watch.State{Phase: watch.Unavailable, Reason: watch.Forbidden, Message: "cannot list holds"}}
		w.gate.Watch()
		after(time.Minute)
		synctest.Wait()
		if len(w.logged) != 1 {
			t.Errorf("logged %q", w.logged)
		}
	})
}

// TestAnImportedObjectWaitsForItsHold is about the moment in which the watch of Apps is ahead
// of that of Holds.
func TestAnImportedObjectWaitsForItsHold(t *testing.T) {
	cases := map[string]struct {
		reason     string
		by         string
		hold       string
		fails      error
		reconciled int
		out        reconcile.Result
		asks       int
	}{
		"The Hold is there": {
			reason: "its event hasn't come yet, so that it is looked for again",
			by:     "import-1/hold-1", hold: aHold, out: reconcile.RequeueAfter(retryAfter), asks: 2,
		},
		"The Hold has gone": {
			reason: "one that has gone never comes back, so that it is asked for once",
			by:     "import-1/hold-1", reconciled: 2, out: reconcile.RequeueAfter(time.Hour), asks: 1,
		},
		"Another Hold has the name": {
			reason: "that of another run of an import",
			by:     "import-1/hold-0", hold: aHold, reconciled: 2, out: reconcile.RequeueAfter(time.Hour), asks: 1,
		},
		"The object wasn't imported": {
			reason:     "nothing is asked",
			reconciled: 2, out: reconcile.RequeueAfter(time.Hour),
		},
		"The annotation names no Hold": {
			reason: "it isn't an import's",
			by:     "/hold-1", reconciled: 2, out: reconcile.RequeueAfter(time.Hour),
		},
		"The Hold can't be read": {
			reason: "nothing follows, and it is tried again",
			by:     "import-1/hold-1", fails: errTest, out: reconcile.Fail(errTest), asks: 2,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(anApp)
			w.gate.Watch()
			if tc.hold != "" {
				w.Add(fakekube.Parse(tc.hold))
			}
			if tc.by != "" {
				w.Change(appKey, func(o *unstructured.Unstructured) {
					o.SetAnnotations(map[string]string{espalier.ImportAnnotation: tc.by})
				})
			}
			w.Before = func(string) error { return tc.fails }
			w.apps.Reconcile(t.Context(), appKey)
			out := w.apps.Reconcile(t.Context(), appKey)
			if w.reconciled != tc.reconciled || out.RequeueAfter != tc.out.RequeueAfter || !errors.Is(out.Err, tc.out.Err) || len(w.Requests) != tc.asks {
				t.Errorf("%s: %d reconciles, %+v, requests %q", tc.reason, w.reconciled, out, w.Requests)
			}
		})
	}
}

var errTest = errors.New("the API server is away")

func TestADeletedObjectIsReconciled(t *testing.T) {
	w := newWorld()
	w.gate.Watch()
	if w.apps.Reconcile(t.Context(), appKey); w.reconciled != 1 {
		t.Error("its reconcile is suspended")
	}
}

func TestAHoldIsAcknowledgedOnceNoReconcileIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(anApp)
		w.gate.Watch()
		go w.gate.Run(t.Context())
		w.during = func() {
			w.hold("import-1")
			synctest.Wait()
			if writes := w.Writes(); len(writes) > 0 {
				t.Errorf("during a reconcile: %q", writes)
			}
		}
		w.apps.Reconcile(t.Context(), appKey)
		synctest.Wait()
		since, _, _ := unstructured.NestedString(w.Object(holdKey).Object, "status", "restingSince")
		if want := "1970-01-01T00:16:40.000000Z"; since != want {
			t.Errorf("restingSince is %q, want %q", since, want)
		}
		w.Writes()
		w.Notify(Kind, "", "import-1")
		synctest.Wait()
		if writes := w.Writes(); len(writes) > 0 {
			t.Errorf("a Hold that is acknowledged is written again: %q", writes)
		}
	})
}

func TestAFailedAcknowledgementIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		fails := 2
		w.Before = func(request string) error {
			if fails--; fails >= 0 {
				return errTest
			}
			return nil
		}
		w.gate.Watch()
		go w.gate.Run(t.Context())
		w.hold("import-1")
		after(5 * retryAfter)
		synctest.Wait()
		if since, _, _ := unstructured.NestedString(w.Object(holdKey).Object, "status", "restingSince"); since == "" {
			t.Errorf("it is never acknowledged: %q", w.logged)
		}
	})
}

func TestAHoldIsAcknowledgedOnceAllInstallationsRest(t *testing.T) {
	const now = "1970-01-01T00:16:40.000000Z"
	for reason, tc := range map[string]struct {
		resting map[string]any // in the status
		running []string
		want    map[string]any
		waits   bool
	}{
		"there is no other":                      {nil, []string{"own"}, map[string]any{"restingSince": now}, false},
		"without leader election there are none": {nil, nil, map[string]any{"restingSince": now}, false},
		"the other works":                        {nil, []string{"other", "own"}, map[string]any{"resting": map[string]any{"own": now}}, true},
		"the other still works":                  {map[string]any{"own": "before"}, []string{"other", "own"}, nil, true},
		"the other rests": {
			map[string]any{"other": "before"}, []string{"other", "own"},
			map[string]any{"resting": map[string]any{"other": "before", "own": now}, "restingSince": now}, false,
		},
		"the other has ended": {map[string]any{"own": "before"}, []string{"own"}, map[string]any{"restingSince": now}, false},
		"one of two others rests": {
			map[string]any{"own": "before", "other": "before"}, []string{"other", "own", "third"}, nil, true,
		},
	} {
		hold := fakekube.Parse(aHold)
		if tc.resting != nil {
			hold.Object["status"] = map[string]any{"resting": tc.resting}
		}
		status, waits := acknowledgement(hold, "own", tc.running, time.Unix(1000, 0))
		if diff := cmp.Diff(tc.want, status); diff != "" || waits != tc.waits {
			t.Errorf("%s: waits %t, want %t; status (-want +got):\n%s", reason, waits, tc.waits, diff)
		}
	}
}

// TestAHoldIsAcknowledgedWhenAnotherInstallationEnds: nothing tells that it has.
func TestAHoldIsAcknowledgedWhenAnotherInstallationEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		running := []string{"other", "own"}
		w.gate.Installation, w.gate.Installations = "own", func(context.Context) ([]string, error) { return running, nil }
		w.gate.Watch()
		go w.gate.Run(t.Context())
		w.hold("import-1")
		after(2 * recheckInterval)
		synctest.Wait()
		status, _, _ := unstructured.NestedMap(w.Object(holdKey).Object, "status")
		if status["restingSince"] != nil || status["resting"] == nil {
			t.Fatalf("while another installation works, the status is %v", status)
		}
		w.Notify(Kind, "", "import-1")
		synctest.Wait()
		running = []string{"own"}
		after(2 * recheckInterval)
		synctest.Wait()
		if since, _, _ := unstructured.NestedString(w.Object(holdKey).Object, "status", "restingSince"); since == "" {
			t.Error("it is not acknowledged once the other installation has ended")
		}
	})
}
