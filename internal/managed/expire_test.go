package managed

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

// expire is one reconcile of a Binding.
func (w *world) expire(key object.Key) (reconcile.Result, []string) {
	w.Writes()
	e := &Expirer{
		Handles: func(kind schema.GroupKind) bool { return kind == databaseKind.GroupKind() }, Bindings: w.Client(), Cache: w,
		Watch: func(s watch.Subscriber) Lease { return w.Begin(s) }, Now: func() time.Time { return w.now },
	}
	out := e.Reconcile(context.Background(), key)
	writes := w.Writes()
	for i := range writes {
		writes[i] = strings.ReplaceAll(writes[i], bindingKey.Name, "k-db")
	}
	return out, writes
}

func TestABindingIsDeletedOnceNothingDependsOnIt(t *testing.T) {
	phase := func(p binding.BindingPhase) edit { return set(string(p), "spec", "phase") }
	cases := map[string]struct {
		reason string
		given  func(*world)
		fails  string
		err    error
		writes []string
		failed bool
		after  time.Duration
	}{
		"the managed resource is there": {
			reason: "its deletion enqueues the Binding", given: func(*world) {},
		},
		"the managed resource is not in the cache": {
			reason: "the API server has it", given: func(w *world) { w.Uncached[databaseKey] = true },
		},
		"the managed resource cannot be read": {
			reason: "it may exist", given: func(w *world) { w.Remove(databaseKey) },
			fails: "get Database prod/db", err: errRefused, failed: true,
		},
		"the managed resource was deleted without its finalizer": {
			reason: "it is unknown whether the external resource exists",
			given:  func(w *world) { w.Remove(databaseKey) },
			writes: []string{"update Binding k-db"},
		},
		"the managed resource is another incarnation": {
			reason: "the owner of the Binding is deleted",
			given: func(w *world) {
				w.Change(databaseKey, func(o *unstructured.Unstructured) { o.SetUID("db-2") })
			},
			writes: []string{"update Binding k-db"},
		},
		"the external resource was released": {
			reason: "the Binding is deleted at once",
			given: func(w *world) {
				w.Remove(databaseKey)
				w.Change(bindingKey, phase(binding.BindingReleased))
			},
			writes: []string{"delete Binding k-db"},
		},
		"the Binding cannot be deleted": {
			reason: "it is retried",
			given: func(w *world) {
				w.Remove(databaseKey)
				w.Change(bindingKey, phase(binding.BindingReleased))
			},
			fails: "delete Binding", err: errRefused,
			writes: []string{"delete Binding k-db"}, failed: true,
		},
		"a tombstone": {
			reason: "the name stays reserved for a while",
			given: func(w *world) {
				w.Remove(databaseKey)
				w.Change(bindingKey, phase(binding.BindingTombstone))
				w.Change(bindingKey, set(w.now.Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000000Z"), "spec", "until"))
			},
			after: time.Minute,
		},
		"another client has changed the Binding": {
			reason: "the event of that brings the next reconcile",
			given: func(w *world) {
				w.Remove(databaseKey)
				w.Before = func(request string) error {
					if strings.HasPrefix(request, "update ") {
						w.Change(bindingKey, annotated("a", "b"))
					}
					return nil
				}
			},
			writes: []string{"update Binding k-db"}, after: 10 * time.Second,
		},
		"another replica has changed the Binding that is to be deleted": {
			reason: "it may record an operation by now",
			given: func(w *world) {
				w.Remove(databaseKey)
				w.Change(bindingKey, phase(binding.BindingReserved))
				w.Before = func(request string) error {
					if strings.HasPrefix(request, "delete ") {
						w.Change(bindingKey, phase(binding.BindingCreating))
					}
					return nil
				}
			},
			writes: []string{"delete Binding k-db"}, after: 10 * time.Second,
		},
		"the managed resource is of another program": {
			reason: "that program handles its Bindings",
			given: func(w *world) {
				w.Change(bindingKey, set("Network", "spec", "owner", "kind"))
			},
		},
		"the Binding is invalid": {
			reason: "another client has written it",
			given:  func(w *world) { w.Change(bindingKey, set("x", "spec", "attempts")) },
		},
		"the Binding is deleted": {
			reason: "there is nothing left to do", given: func(w *world) { w.Remove(bindingKey) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := existing(t)
			tc.given(w)
			if tc.err != nil {
				w.Before = func(request string) error {
					if strings.HasPrefix(request, tc.fails) {
						return tc.err
					}
					return nil
				}
			}
			out, writes := w.expire(bindingKey)
			if diff := cmp.Diff(tc.writes, writes); diff != "" {
				t.Errorf("%s: requests (-want +got):\n%s", tc.reason, diff)
			}
			if (out.Err != nil) != tc.failed || out.RequeueAfter != tc.after {
				t.Errorf("%s: %+v", tc.reason, out)
			}
		})
	}
}

func TestAReservationIsDeletedAfterItsBinding(t *testing.T) {
	w := newWorld(database)
	w.cloud.caps = capabilities["found by marks"]
	w.settle(t)
	var main, reservation object.Key
	for _, key := range w.Keys() {
		if o := w.Object(key); key.Kind == BindingKind.Kind && isReservation(o) {
			reservation = key
		} else if key.Kind == BindingKind.Kind {
			main = key
		}
	}
	w.Remove(databaseKey)
	if out, writes := w.expire(reservation); out.Err != nil || len(writes) > 0 {
		t.Errorf("while there is its Binding: %q, %v", writes, out.Err)
	}
	w.Change(main, set(string(binding.BindingReleased), "spec", "phase"))
	both := fakekube.New()
	for _, key := range w.Keys() {
		both.Add(w.Object(key))
	}
	_, writes := w.expire(main)
	if diff := cmp.Diff([]string{"delete " + reservation.String(), "delete " + main.String()}, writes); diff != "" {
		t.Errorf("with the Binding (-want +got):\n%s", diff)
	}
	for _, fails := range []string{"get " + main.String(), "delete " + reservation.String()} {
		w.Add(both.Object(reservation))
		w.Before = func(request string) error {
			if request == fails {
				return errRefused
			}
			return nil
		}
		if out, _ := w.expire(reservation); !errors.Is(out.Err, errRefused) {
			t.Errorf("where %s fails: %+v", fails, out)
		}
	}
	w.Before = nil
	_, writes = w.expire(reservation)
	if diff := cmp.Diff([]string{"delete " + reservation.String()}, writes); diff != "" {
		t.Errorf("after the Binding (-want +got):\n%s", diff)
	}
}
