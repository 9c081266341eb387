package managed

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

var (
	errDead    = errors.New("the process has died")
	unsynced   = watch.State{Phase: watch.Syncing}
	forbidden  = watch.State{Phase: watch.Unavailable, Reason: watch.Forbidden, Message: "cannot list"}
	errRefused = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "db", errors.New("no"))
)

type edit = func(*unstructured.Unstructured)

func annotated(key, value string) edit {
	return func(o *unstructured.Unstructured) {
		all := o.GetAnnotations()
		if all == nil {
			all = map[string]string{}
		}
		all[key] = value
		o.SetAnnotations(all)
	}
}

func set(value any, path ...string) edit {
	return func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, value, path...) }
}

func deleted(o *unstructured.Unstructured) {
	now := metav1.NewTime(start)
	o.SetDeletionTimestamp(&now)
}

// existing is a world with a database that has settled.
func existing(t *testing.T, edits ...edit) *world {
	t.Helper()
	w := newWorld(database)
	for _, e := range edits {
		w.Change(databaseKey, e)
	}
	w.settle(t)
	w.Events, w.now = nil, start.Add(time.Hour)
	return w
}

func TestACreationStoresItsIntentBeforeTheCallAndItsTokenBeforeAPoll(t *testing.T) {
	w := newWorld(database)
	w.cloud.slow = 2
	var open []string
	w.cloud.during = func(verb external.Verb) error {
		op := w.spec(t).Operation
		open = append(open, fmt.Sprintf("%s: %s %s, resume %q", verb, op.Verb, op.Request, op.Resume))
		return nil
	}
	out, writes := w.reconcile(t)
	want := []string{
		"patch Database prod/db",         // the finalizer
		"apply Binding k-db",             // the key is taken
		"update Binding k-db",            // nothing was there before
		"update Binding k-db",            // the intent
		"call Create db",                 //
		"update Binding k-db",            // the token
		"call poll db",                   //
		"update-status Database prod/db", // in progress
	}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`Create: Create "small", resume ""`, `poll: Create "small", resume "db"`}, open); diff != "" {
		t.Errorf("stored at the time of the call (-want +got):\n%s", diff)
	}
	if out.Err != nil || !out.Pending || out.RequeueAfter < 5*time.Second || out.RequeueAfter > 6*time.Second {
		t.Errorf("it polls as the API wants to be asked, and has not succeeded yet: %+v", out)
	}
	w.now = w.now.Add(out.RequeueAfter)
	_, writes = w.reconcile(t)
	want = []string{
		"call poll db",
		"update Binding k-db",    // bound
		"patch Database prod/db", // the external name
		"patch Database prod/db", // what the API has chosen
		"update-status Database prod/db",
	}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("requests once it is done (-want +got):\n%s", diff)
	}
	o := w.Object(databaseKey)
	zone, _, _ := unstructured.NestedString(o.Object, "spec", "forProvider", "zone")
	at, _, _ := unstructured.NestedString(o.Object, "status", "atProvider", "request")
	if name := o.GetAnnotations()[resource.ExternalNameAnnotation]; name != "db" || zone != "a" || at != `"small"` {
		t.Errorf("external name %q, zone %q, atProvider %q", name, zone, at)
	}
	if out, writes := w.reconcile(t); len(writes) > 0 || out.Err != nil || out.Pending || out.RequeueAfter < time.Minute {
		t.Errorf("at rest: %q, %+v", writes, out)
	}
}

func TestRefusedLateInitializationKeepsFieldsUnset(t *testing.T) {
	for name, causes := range map[string][]metav1.StatusCause{
		"the API server names the field":   {{Field: "spec.forProvider.zone", Message: "must match a pattern"}},
		"the API server names an item":     {{Field: "spec.forProvider.zone[0].name", Message: "must be set"}},
		"the API server names only a rule": {{Field: "spec", Message: "failed rule"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(database)
			patches := 0
			w.Before = func(request string) error {
				if request != "patch Database prod/db" {
					return nil
				}
				if patches++; patches < 3 { // the finalizer and the external name
					return nil
				}
				err := apierrors.NewInvalid(databaseKind.GroupKind(), "db", nil)
				err.ErrStatus.Details.Causes = causes
				return err
			}
			out, _ := w.reconcile(t)
			o := w.Object(databaseKey)
			if zone, set, _ := unstructured.NestedString(o.Object, "spec", "forProvider", "zone"); set || out.Err != nil || patches != 3 {
				t.Errorf("zone %q after %d patches, %v", zone, patches, out.Err)
			}
			if synced, _ := condition.Read(o).Get(resource.Synced); synced.Status != condition.True {
				t.Errorf("Synced is %+v", synced)
			}
		})
	}
}

var capabilities = map[string]external.Caps{
	"named by the caller": {Naming: external.CallerAssigned, Marked: true},
	"with tokens":         {Naming: external.ProviderAssigned, TokenTTL: time.Hour},
	"found by marks":      {Naming: external.ProviderAssigned, Findable: true, Marked: true},
}

// TestACrashAnywhereCreatesOneResource ends the process before and after each request, and in
// each call, of a creation and of the deletion that follows.
func TestACrashAnywhereCreatesOneResource(t *testing.T) {
	for name, caps := range capabilities {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after the request: %t", name, after), func(t *testing.T) {
				crashes := 0
				for n := 1; ; n++ {
					w := newWorld(database)
					w.cloud.caps, w.cloud.slow = caps, 1
					died := w.life(t, n, after)
					if w.cloud.created != 1 || len(w.cloud.things) != 0 {
						t.Errorf("died in request %d: %d were created, and %d are left", n, w.cloud.created, len(w.cloud.things))
					}
					if !died {
						break
					}
					crashes++
				}
				if crashes < 12 {
					t.Errorf("it died %d times only", crashes)
				}
			})
		}
	}
}

// life creates the database and deletes it, and dies in the n-th request; it says whether it
// came to that.
func (w *world) life(t *testing.T, n int, after bool) (died bool) {
	t.Helper()
	requests := 0
	crash := func() error {
		if requests++; requests >= n && !died {
			died, w.cloud.unreachable = true, errDead
		}
		return w.cloud.unreachable
	}
	reads := func(request string) bool { return strings.HasPrefix(request, "get ") }
	w.Before = func(request string) error {
		if after || reads(request) {
			return w.cloud.unreachable
		}
		return crash()
	}
	w.After = func(request string) error {
		if !after || reads(request) {
			return nil
		}
		return crash()
	}
	w.cloud.during = func(verb external.Verb) error {
		if verb == "poll" {
			return nil
		}
		return crash()
	}
	restart := func() { w.cloud.unreachable = nil }
	for range 40 {
		out, _ := w.reconcile(t)
		restart()
		w.now = w.now.Add(max(out.RequeueAfter, time.Second))
		if strings.HasPrefix(w.condition(resource.Ready), "True") {
			break
		}
	}
	w.Change(databaseKey, deleted)
	for range 40 {
		out, _ := w.reconcile(t)
		restart()
		w.now = w.now.Add(max(out.RequeueAfter, time.Second))
		if w.Object(databaseKey) == nil {
			return died
		}
	}
	t.Errorf("died in request %d: it is never gone: %s", n, w.condition(resource.Synced))
	return died
}

func TestReconcile(t *testing.T) {
	cases := map[string]struct {
		reason string
		// given changes a world in which the database exists, or, if new, doesn't yet.
		new    bool
		given  func(t *testing.T, w *world)
		writes []string
		synced string
		fails  bool
		after  time.Duration
		events []string
	}{
		"The spec changes": {
			reason: "the update's intent is stored before its call",
			given:  func(_ *testing.T, w *world) { w.Change(databaseKey, set("large", "spec", "forProvider", "size")) },
			writes: []string{"update Binding k-db", "call Update db", "update Binding k-db", "update-status Database prod/db"},
			synced: "True ReconcileSuccess: ", after: time.Minute,
		},
		"Nothing changes": {
			reason: "it is polled, and costs no request",
			given:  func(*testing.T, *world) {},
			synced: "True ReconcileSuccess: ", after: time.Minute,
		},
		"A reconcile is requested": {
			reason: "the status shows that it was handled",
			given: func(_ *testing.T, w *world) {
				w.Change(databaseKey, annotated(resource.ReconcileRequestedAtAnnotation, "now"))
			},
			writes: []string{"update-status Database prod/db"},
			synced: "True ReconcileSuccess: ", after: time.Minute,
		},
		"It is paused": {
			reason: "nothing is read, and no client connects",
			given: func(_ *testing.T, w *world) {
				w.cloud.connectErr = errRefused
				w.Change(databaseKey, annotated(resource.PausedAnnotation, "true"))
			},
			writes: []string{"update-status Database prod/db"},
			synced: "False ReconcilePaused: paused by the annotation crossplane.io/paused; nothing is observed or changed",
			events: []string{"Warning ReconcilePaused: paused by the annotation crossplane.io/paused; nothing is observed or changed"},
		},
		"Credentials are missing": {
			reason: "it is an error that the status shows, and is retried",
			given: func(_ *testing.T, w *world) {
				w.cloud.connectErr = errors.New("there is no Secret prod/credentials")
			},
			writes: []string{"update-status Database prod/db"},
			synced: "False ReconcileError: there is no Secret prod/credentials", fails: true,
			events: []string{"Warning ReconcileError: there is no Secret prod/credentials"},
		},
		"Credentials are being read": {
			reason: "it is no failure: an event brings the next reconcile",
			given:  func(_ *testing.T, w *world) { w.cloud.connectErr = port.ErrNotSynced },
			synced: "True ReconcileSuccess: ",
		},
		"The external API is unavailable": {
			reason: "an unknown state changes nothing",
			given:  func(_ *testing.T, w *world) { w.cloud.observeErr = errors.New("timeout") },
			writes: []string{"update-status Database prod/db"},
			synced: "False ReconcileError: observe the external resource: timeout", fails: true,
			events: []string{"Warning ReconcileError: observe the external resource: timeout"},
		},
		"What was observed is being read": {
			reason: "as with credentials",
			given:  func(_ *testing.T, w *world) { w.cloud.observeErr = port.ErrNotSynced },
			synced: "True ReconcileSuccess: ",
		},
		"The external API throttles": {
			reason: "the call is repeated after RetryAfter",
			given: func(_ *testing.T, w *world) {
				w.Change(databaseKey, set("large", "spec", "forProvider", "size"))
				w.cloud.rejection = &external.OpError{Class: external.Rejected, Code: "Throttled", RetryAfter: 30 * time.Second}
			},
			writes: []string{"update Binding k-db", "call Update db", "update Binding k-db", "update-status Database prod/db"},
			synced: "False ReconcileError: Throttled: ", fails: true, after: 30 * time.Second,
			events: []string{"Warning ReconcileError: Throttled: "},
		},
		"It is only observed, and does not exist": {
			reason: "the policies allow no creation",
			new:    true,
			given: func(_ *testing.T, w *world) {
				w.Change(databaseKey, set([]any{"Observe"}, "spec", "managementPolicies"))
			},
			writes: []string{"patch Database prod/db", "apply Binding u-db-1", "update-status Database prod/db"},
			synced: "False ReconcileError: the external resource does not exist, and spec.managementPolicies does not allow creating it",
			after:  time.Minute,
			events: []string{"Warning ReconcileError: the external resource does not exist, and spec.managementPolicies does not allow creating it"},
		},
		"Bindings are not synced": {
			reason: "an open operation may be unknown",
			given:  func(_ *testing.T, w *world) { w.Kinds[BindingKind.GroupKind()] = fakekube.Kind{State: unsynced} },
			synced: "True ReconcileSuccess: ",
		},
		"Its Binding is not in the cache": {
			reason: "the key is its own: the Binding is found, and nothing is created",
			given:  func(_ *testing.T, w *world) { w.Uncached[bindingKey] = true },
			writes: []string{"apply Binding k-db"},
			synced: "True ReconcileSuccess: ", after: time.Minute,
		},
		"Another managed resource has the key": {
			reason: "the deletion of its Binding is an event; no call is made until then",
			new:    true,
			given: func(t *testing.T, w *world) {
				other := newWorld(strings.Replace(database, "uid: db-1", "uid: db-0", 1))
				other.settle(t)
				w.Add(other.Object(bindingKey))
			},
			writes: []string{"patch Database prod/db", "apply Binding k-db", "update-status Database prod/db"},
			synced: `False NameReserved: database "db" in eu belongs to Database prod/db`,
			events: []string{`Warning NameReserved: database "db" in eu belongs to Database prod/db`},
		},
		"It is deleted": {
			reason: "the finalizer is removed once the external resource is deleted",
			given:  func(_ *testing.T, w *world) { w.Change(databaseKey, deleted) },
			writes: []string{"update Binding k-db", "call Delete db", "update Binding k-db", "update Binding k-db", "update Binding k-db", "patch Database prod/db"},
			synced: "gone",
		},
		"It is deleted before it has an identity, and its Binding is not in the cache": {
			reason: "another replica has called the external API",
			given: func(_ *testing.T, w *world) {
				w.Change(databaseKey, func(o *unstructured.Unstructured) {
					deleted(o)
					o.SetAnnotations(nil)
				})
				w.Uncached[bindingKey] = true
			},
			writes: []string{"update Binding k-db", "call Delete db", "update Binding k-db", "update Binding k-db", "update Binding k-db", "patch Database prod/db"},
			synced: "gone",
		},
		"It is deleted, and its external resource stays": {
			reason: "the policies orphan it",
			given: func(_ *testing.T, w *world) {
				w.Change(databaseKey, set("Orphan", "spec", "deletionPolicy"))
				w.Change(databaseKey, deleted)
			},
			writes: []string{"update Binding k-db", "patch Database prod/db"},
			synced: "gone",
		},
		"Another client has changed it": {
			reason: "the event of that brings the next reconcile",
			given: func(_ *testing.T, w *world) {
				w.Change(databaseKey, set("large", "spec", "forProvider", "size"))
				w.Before = func(request string) error {
					if request == "update-status Database prod/db" {
						w.Change(databaseKey, annotated("a", "b"))
					}
					return nil
				}
			},
			writes: []string{"update Binding k-db", "call Update db", "update Binding k-db", "update-status Database prod/db"},
			synced: "True ReconcileSuccess: ", after: 10 * time.Second,
		},
		"Another client has changed its Binding": {
			reason: "no call is made before it is stored",
			given: func(_ *testing.T, w *world) {
				w.Change(databaseKey, set("large", "spec", "forProvider", "size"))
				w.Before = func(request string) error {
					if strings.HasPrefix(request, "update Binding") {
						w.Change(bindingKey, annotated("a", "b"))
					}
					return nil
				}
			},
			writes: []string{"update Binding k-db"},
			synced: "True ReconcileSuccess: ", after: 10 * time.Second,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(database)
			if !tc.new {
				w = existing(t)
			}
			tc.given(t, w)
			out, writes := w.reconcile(t)
			if diff := cmp.Diff(tc.writes, writes); diff != "" {
				t.Errorf("%s: requests (-want +got):\n%s", tc.reason, diff)
			}
			if got := w.condition(resource.Synced); got != tc.synced {
				t.Errorf("%s: Synced is %q, want %q", tc.reason, got, tc.synced)
			}
			if (out.Err != nil) != tc.fails || out.RequeueAfter < tc.after || out.RequeueAfter > tc.after+tc.after/9 {
				t.Errorf("%s: %+v", tc.reason, out)
			}
			if diff := cmp.Diff(tc.events, w.Events); diff != "" {
				t.Errorf("%s: events (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAFailedRequestIsReportedAndRepeated(t *testing.T) {
	for _, request := range []string{"patch Database prod/db", "apply Binding", "update Binding", "update-status Database prod/db"} {
		t.Run(request, func(t *testing.T) {
			w := newWorld(database)
			w.Before = func(made string) error {
				if strings.HasPrefix(made, request) {
					return errRefused
				}
				return nil
			}
			if out, _ := w.reconcile(t); !errors.Is(out.Err, errRefused) {
				t.Errorf("the outcome is %+v", out)
			}
			if len(w.cloud.things) > 0 && !strings.HasPrefix(request, "update-status") && request != "patch Database prod/db" {
				t.Errorf("%d were created", len(w.cloud.things))
			}
			w.Before = nil
			w.settle(t)
			if got := w.condition(resource.Synced); w.cloud.created != 1 || got != "True ReconcileSuccess: " {
				t.Errorf("%d were created, and it says %q", w.cloud.created, got)
			}
		})
	}
}

func TestAnAssignedIdentityIsReserved(t *testing.T) {
	w := newWorld(database)
	w.cloud.caps = capabilities["found by marks"]
	w.settle(t)
	reservations := func() (out []object.Key) {
		for _, key := range w.Keys() {
			if o := w.Object(key); key.Kind == BindingKind.Kind && isReservation(o) {
				out = append(out, key)
			}
		}
		return out
	}
	first := reservations()
	if len(first) != 1 {
		t.Fatalf("the reservations are %v", first)
	}
	w.Remove(first[0])
	w.settle(t)
	if diff := cmp.Diff(first, reservations()); diff != "" {
		t.Errorf("after somebody has deleted it (-want +got):\n%s", diff)
	}
	w.Change(databaseKey, deleted)
	w.settle(t)
	if w.Object(databaseKey) != nil || len(w.cloud.things) > 0 {
		t.Errorf("%d external resources are left, and Synced is %s", len(w.cloud.things), w.condition(resource.Synced))
	}
}

func TestBindingsOfAFormerIncarnationAreEnqueued(t *testing.T) {
	w := existing(t)
	w.Change(databaseKey, func(o *unstructured.Unstructured) { o.SetUID("db-2") })
	w.enqueued = nil
	w.reconcile(t)
	if diff := cmp.Diff([]object.Key{bindingKey}, w.enqueued); diff != "" {
		t.Errorf("when it was recreated (-want +got):\n%s", diff)
	}
	w.Remove(databaseKey)
	w.enqueued, w.subscribed = nil, true
	w.reconcile(t)
	if diff := cmp.Diff([]object.Key{bindingKey}, w.enqueued); diff != "" || w.subscribed || w.Watched[databaseKey] != nil {
		t.Errorf("when it is deleted: subscribed to usages: %t, watches %q (-want +got):\n%s", w.subscribed, w.Watched[databaseKey], diff)
	}
}

func TestAUsageBlocksTheDeletionOfTheExternalResource(t *testing.T) {
	of := usage.Usage{Key: object.Key{Kind: "Usage", Namespace: "prod", Name: "u"}, UID: "u-1", Reason: "the ledger"}
	leaving := of
	leaving.Released = true
	const inUse = "False InUse: the external resource is not deleted while the object is in use: the ledger (Usage prod/u); it is deleted once the usage is gone"
	cases := map[string]struct {
		reason     string
		given      func(*testing.T, *world)
		synced     string
		subscribed bool
	}{
		"in use":                   {"no call is made", func(_ *testing.T, w *world) { w.usages = []usage.Usage{of} }, inUse, true},
		"a usage is being removed": {"it blocks nothing any more", func(_ *testing.T, w *world) { w.usages = []usage.Usage{leaving} }, "gone", true},
		"not in use":               {"the external resource is deleted", func(*testing.T, *world) {}, "gone", true},
		"usages are being read": {
			"the object is enqueued once they are read",
			func(_ *testing.T, w *world) {
				w.unreadable = &plan.Unreadable{Problem: plan.Problem{Reason: plan.Syncing}}
			}, "True ReconcileSuccess: ", true,
		},
		"usages cannot be read, and the object has the in-use label": {
			"it is most likely in use",
			func(_ *testing.T, w *world) {
				w.unreadable = &plan.Unreadable{Problem: plan.Problem{Reason: plan.Forbidden, Message: "cannot list usages"}}
				w.Change(databaseKey, func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"crossplane.io/in-use": "true"}) })
			},
			"False InUse: the external resource is not deleted while the object is labelled as in use, and its usages cannot be read: cannot list usages", true,
		},
		"usages cannot be read, and the object has no in-use label": {
			"it is most likely not in use",
			func(_ *testing.T, w *world) {
				w.unreadable = &plan.Unreadable{Problem: plan.Problem{Reason: plan.Forbidden}}
			}, "gone", true,
		},
		"the deletion of the external resource has started": {
			"it continues",
			func(_ *testing.T, w *world) {
				w.usages = []usage.Usage{of}
				w.Change(bindingKey, set(string(binding.BindingDeleting), "spec", "phase"))
			}, "gone", false,
		},
		"the call of its deletion was made": {
			"it continues",
			func(t *testing.T, w *world) {
				w.cloud.slow = 9
				w.reconcile(t)
				w.usages = []usage.Usage{of}
			}, "Unknown OperationInProgress: deleting the external resource, since 2026-05-01T11:00:00Z", false,
		},
		"the external resource stays anyway": {
			"it is orphaned",
			func(_ *testing.T, w *world) {
				w.usages = []usage.Usage{of}
				w.Change(databaseKey, set("Orphan", "spec", "deletionPolicy"))
			}, "gone", false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := existing(t)
			w.Change(databaseKey, deleted)
			tc.given(t, w)
			w.reconcile(t)
			if got := w.condition(resource.Synced); got != tc.synced || w.subscribed != tc.subscribed {
				t.Errorf("%s: subscribed: %t, and Synced is %q", tc.reason, w.subscribed, got)
			}
		})
	}
}

// TestAClientThatCannotIdentifyTheResourceIsClosed expects that each retry closes its client as
// well.
func TestAClientThatCannotIdentifyTheResourceIsClosed(t *testing.T) {
	w := newWorld(database)
	w.cloud.identifyErr = errors.New("spec.forProvider.size is not known here")
	for range 2 {
		if out, _ := w.reconcile(t); out.Err == nil { // reconcile checks the number of connected clients
			t.Error("the failure is not repeated")
		}
	}
	if got := w.condition(resource.Synced); !strings.Contains(got, "spec.forProvider.size") {
		t.Error("it says", got)
	}
}

// TestADeletedManagedResourceIsEnqueuedForItsBindings has the removal of the last finalizer
// delete the object. The cache records that before the event arrives, so that the event enqueues
// nothing.
func TestADeletedManagedResourceIsEnqueuedForItsBindings(t *testing.T) {
	w := newWorld(database)
	w.Change(databaseKey, func(o *unstructured.Unstructured) {
		deleted(o)
		o.SetFinalizers([]string{resource.Finalizer})
	})
	if out, _ := w.reconcile(t); out.Err != nil || w.Object(databaseKey) != nil {
		t.Fatalf("it is not gone: %+v", out)
	}
	if !slices.Contains(w.enqueued, databaseKey) {
		t.Errorf("enqueued were %v", w.enqueued)
	}
}
