package instance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// deleted is a fixture with a and b, which depends on a, whose Web is being deleted.
func deleted(t *testing.T) *fixture {
	f := newReconciled(t, configMap("a"), configMap("b", "a"))
	f.delete()
	return f
}

func (f *fixture) annotate(key object.Key, name, value string) {
	f.change(key, func(o *unstructured.Unstructured) {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[name] = value
		o.SetAnnotations(annotations)
	})
}

// until reconciles until a call shows up, and passes the time in between.
func (f *fixture) until(call string) {
	f.t.Helper()
	for range 20 {
		if out := f.reconcile(); slices.Contains(f.calls, call) {
			return
		} else if out.RequeueAfter > 0 {
			f.pass(out.RequeueAfter)
		}
	}
	f.t.Fatalf("no request %q; the last were %q", call, f.calls)
}

// reconcileFor reconciles so many times, with time for others in between.
func (f *fixture) reconcileFor(times int) {
	for range times {
		out := f.reconcile()
		f.pass(max(out.RequeueAfter, time.Second))
	}
}

func TestChildrenAreDeletedInReverseOrderAndTheInstanceLast(t *testing.T) {
	f := deleted(t)
	f.reconcile()
	f.wantCalls("read the deletion of Web shop", "status Web shop", "delete ConfigMap b")
	f.wantCondition(v1alpha1.InstanceReady, "False Deleting: its resources are being deleted, in reverse order: 0 of 2 are gone")
	f.reconcile()
	f.wantCalls("delete ConfigMap a")
	f.reconcile()
	f.wantCalls("remove finalizers of Web shop")
	if len(f.objects) > 0 {
		t.Errorf("left: %v", f.objects)
	}
	if f.watched != nil {
		t.Errorf("still watched: %q", f.watched)
	}
	f.reconcile()
	f.wantCalls("wake the definition") // it may wait for its instances to be gone
}

func TestADeletionGoesOnWhileTheAnswersSayThatChildrenAreGone(t *testing.T) {
	f := deleted(t)
	f.confirms = true
	if out := f.reconcile(); out.Err != nil || out.RequeueAfter > 0 {
		t.Errorf("got %+v", out)
	}
	f.wantCalls("read the deletion of Web shop", "status Web shop", "delete ConfigMap b", "delete ConfigMap a", "remove finalizers of Web shop")
	if len(f.objects) > 0 {
		t.Errorf("left: %v", f.objects)
	}
}

func TestADeletionWaitsForChildrenThatAreNotGone(t *testing.T) {
	cases := map[string]struct {
		given func(*fixture)
		want  []string
	}{
		"A finalizer": {func(f *fixture) {
			f.change(keyOf("a"), func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"other/keeps"}) })
		}, []string{"read the deletion of Web shop", "status Web shop", "delete ConfigMap b", "delete ConfigMap a"}},
		"A refusal": {func(f *fixture) { f.fail["delete ConfigMap a"] = errors.New("no deletions today") },
			[]string{"read the deletion of Web shop", "status Web shop", "delete ConfigMap b", "delete ConfigMap a", "status Web shop"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := deleted(t)
			f.confirms = true
			tc.given(f)
			if out := f.reconcile(); out.Err != nil || out.RequeueAfter == 0 {
				t.Errorf("got %+v", out)
			}
			f.wantCalls(tc.want...)
		})
	}
}

func TestALongDeletionIsContinuedByEvents(t *testing.T) {
	f := deleted(t)
	f.confirms = true
	f.answer = func(o *unstructured.Unstructured) {
		if o.GetName() == "b" {
			f.pass(teardownDuration)
		}
	}
	if out := f.reconcile(); out.Err != nil {
		t.Errorf("got %+v", out)
	}
	f.wantCalls("read the deletion of Web shop", "status Web shop", "delete ConfigMap b", "status Web shop", "delete ConfigMap a")
	f.reconcile()
	f.wantCalls("remove finalizers of Web shop")
}

func TestADeletionThatRunsOutOfTimeIsContinued(t *testing.T) {
	f := deleted(t)
	f.confirms = true
	ctx, cancel := context.WithCancel(t.Context())
	f.answer = func(o *unstructured.Unstructured) {
		if o.GetName() == "b" {
			cancel()
		}
	}
	if out := f.Reconcile(ctx, shop); out.Err == nil {
		t.Errorf("nothing triggers the next reconcile: %+v", out)
	}
	f.answer = nil
	f.until("remove finalizers of Web shop")
}

func TestTheDeletionIsReportedBeforeTheFirstChildIsTouched(t *testing.T) {
	cases := map[string]struct {
		err     error
		deletes bool
		settled bool
	}{
		"A stale write waits for its event":              {apierrors.NewConflict(webs, "shop", errors.New("changed")), false, true},
		"A transient failure is retried":                 {apierrors.NewTooManyRequests("later", 1), false, true},
		"A permanent refusal doesn't delay the deletion": {invalid("no"), true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := deleted(t)
			f.fail["status Web shop"] = tc.err
			out := f.reconcile()
			if got := slices.Contains(f.calls, "delete ConfigMap b"); got != tc.deletes {
				t.Errorf("requests: %q", f.calls)
			}
			if tc.settled && out.RequeueAfter == 0 && out.Err == nil {
				t.Errorf("nothing brings the next reconcile: %+v", out)
			}
		})
	}
	t.Run("A failure that lasts doesn't delay the deletion either", func(t *testing.T) {
		f := deleted(t)
		f.fail["status Web shop"] = apierrors.NewTooManyRequests("later", 1)
		f.pass(statusDelay)
		f.reconcile()
		if !slices.Contains(f.calls, "delete ConfigMap b") {
			t.Errorf("requests: %q", f.calls)
		}
	})
}

func TestAStatusWithoutADeletionFieldHasTheConditionsOnly(t *testing.T) {
	f := deleted(t)
	f.Cluster = narrow{fakeCluster{f.fake}}
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceReady, "False Deleting")
	if !slices.Contains(f.calls, "delete ConfigMap b") {
		t.Errorf("requests: %q", f.calls)
	}
	f.reconcile()
	f.wantCalls("delete ConfigMap a")
}

// narrow is a server that rejects the engine's fields in a status.
type narrow struct{ fakeCluster }

func (n narrow) WriteStatus(ctx context.Context, o *unstructured.Unstructured, status map[string]any, manager string) (*unstructured.Unstructured, error) {
	if _, has := status[report.DeletionField]; has {
		return nil, invalid("status.deletion must be a string")
	}
	return n.fakeCluster.WriteStatus(ctx, o, status, manager)
}

func TestWhatBlocksADeletionIsReported(t *testing.T) {
	cases := map[string]struct {
		given func(*fixture)
		want  string
	}{
		"A finalizer, with its manager": {func(f *fixture) {
			f.change(keyOf("b"), func(o *unstructured.Unstructured) {
				o.SetFinalizers([]string{"other/keeps"})
				theirs := fieldsEntry("other-controller", map[string]any{})
				theirs.FieldsV1 = &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:finalizers":{"v:\"other/keeps\"":{}}}}`)}
				o.SetManagedFields(append(o.GetManagedFields(), theirs))
			})
		}, "b Finalizer: held by finalizer other/keeps, added by other-controller"},
		"A refusal": {func(f *fixture) { f.fail["delete ConfigMap b"] = errors.New("no deletions today") },
			"b DeniedByWebhook: no deletions today"},
		"A usage": {func(f *fixture) {
			f.uses = map[object.Key][]usage.Usage{keyOf("b"): {{Key: object.Key{Kind: "Usage", Name: "u"}, UID: "u", Reason: "the shop is open"}}}
		}, "b Protected: in use: the shop is open"},
		"A usage that may be there": {func(f *fixture) {
			f.unreadable = &plan.Unreadable{Problem: plan.Problem{Reason: plan.Forbidden, Message: "usages are forbidden"}}
			f.change(keyOf("b"), func(o *unstructured.Unstructured) {
				labels := o.GetLabels()
				labels["crossplane.io/in-use"] = "true"
				o.SetLabels(labels)
			})
		}, "b Protected: it is labeled as in use, and its usages cannot be read: usages are forbidden"},
		"A protection of the instance": {func(f *fixture) { f.annotate(shop, v1alpha1.ProtectAnnotation, "precious") },
			"shop Protected: protected: precious"},
		"A kind that can't be read": {func(f *fixture) {
			f.unsynced = map[string]watch.State{"ConfigMap": {Phase: watch.Unavailable, Reason: watch.Forbidden, Message: "no"}}
		}, " Forbidden: cannot determine which objects remain: no"},
		"A kind that can't be looked up": {func(f *fixture) { f.kindsErr = errors.New("discovery is down") },
			" OutOfReach: cannot determine which objects remain: discovery is down"},
		"A modified inventory without a definition": {func(f *fixture) {
			f.annotate(shop, v1alpha1.ApplySetKindsAnnotation, "Secret")
			f.composer.Store(nil)
		}, "shop OutOfReach: its inventory was modified"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := deleted(t)
			tc.given(f)
			f.reconcileFor(5)
			got := f.blockers()
			if len(got) == 0 || !strings.HasPrefix(got[0], tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if f.objects[keyOf("a")] == nil {
				t.Error("what b stands on is gone")
			}
		})
	}
}

func TestABlockerIsOneEvent(t *testing.T) {
	f := deleted(t)
	f.fail["delete ConfigMap b"] = errors.New("no deletions today")
	f.reconcile()
	f.wantCalls("read the deletion of Web shop", "status Web shop", "delete ConfigMap b", "status Web shop")
	f.wantEvent("Warning DeletionBlocked: ConfigMap prod/b: DeniedByWebhook: no deletions today")
	f.pass(time.Second)
	f.reconcile()
	if len(f.events) > 0 {
		t.Errorf("recorded again: %q", f.events)
	}
}

func TestARefusalThatCannotBeReportedEndsTheReconcile(t *testing.T) {
	f := deleted(t)
	f.fail["delete ConfigMap b"] = errors.New("no")
	f.Cluster = &second{fakeCluster: fakeCluster{f.fake}}
	if out := f.reconcile(); out.Err == nil && out.RequeueAfter == 0 {
		t.Errorf("got %+v", out)
	}
}

// second is a server whose second write of a status is overtaken.
type second struct {
	fakeCluster
	writes int
}

func (s *second) WriteStatus(ctx context.Context, o *unstructured.Unstructured, status map[string]any, manager string) (*unstructured.Unstructured, error) {
	if s.writes++; s.writes == 2 {
		return nil, apierrors.NewConflict(webs, "shop", errors.New("changed"))
	}
	return s.fakeCluster.WriteStatus(ctx, o, status, manager)
}

func TestADeletionPastItsTimeoutIsStalled(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.nodes.defaults.Timeout = time.Minute
	f.reconcile()
	f.delete()
	f.fail["delete ConfigMap a"] = errors.New("no deletions today")
	f.reconcile()
	f.pass(time.Minute)
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceStalled, "True DeletionTimeout")
	f.wantEvent("Warning DeletionTimeout")
}

func TestAForcedDeletionLeavesBehindWhatBlocksIt(t *testing.T) {
	for name, force := range map[string]func(*fixture){
		"For as long as the instance says":   func(f *fixture) { f.annotate(shop, v1alpha1.ForceAfterAnnotation, "1m") },
		"For as long as the definition says": func(f *fixture) { f.nodes.defaults.ForceAfter = time.Minute },
		"By name":                            func(f *fixture) { f.annotate(shop, v1alpha1.ForceDeleteAnnotation, "ConfigMap/b") },
	} {
		t.Run(name, func(t *testing.T) {
			f := deleted(t)
			force(f)
			f.fail["delete ConfigMap b"] = errors.New("no deletions today")
			var events []string
			for range 10 {
				f.reconcile()
				events = append(events, f.events...)
				f.pass(time.Minute)
			}
			if f.shop() != nil || f.objects[keyOf("b")] == nil {
				t.Errorf("left: %v", f.objects)
			}
			if text := strings.Join(events, "\n"); !strings.Contains(text, "Warning ForceDeleted: requested by ") || !strings.Contains(text, "left behind: ConfigMap prod/b") {
				t.Errorf("events: %s", text)
			}
		})
	}
}

func TestADeletionThatOrphansReleasesTheChildren(t *testing.T) {
	cases := map[string]func(*fixture){
		"As a former revision tells": func(f *fixture) { f.orphaned = true },
		"As the garbage collector's mark": func(f *fixture) {
			f.change(shop, func(o *unstructured.Unstructured) { o.SetFinalizers(append(o.GetFinalizers(), orphanFinalizer)) })
		},
		"As the status tells after a restart": func(f *fixture) {
			f.change(shop, func(o *unstructured.Unstructured) {
				_ = unstructured.SetNestedMap(o.Object, map[string]any{"startedAt": "2026-08-01T12:00:00.000Z", "policy": "Orphan", "total": int64(0)}, "status", "deletion")
			})
			f.memories = memories{}
		},
	}
	for name, given := range cases {
		t.Run(name, func(t *testing.T) {
			f := deleted(t)
			given(f)
			f.until("remove finalizers of Web shop")
			for _, name := range []string{"a", "b"} {
				if o := f.objects[keyOf(name)]; o == nil || o.GetLabels()[v1alpha1.ApplySetPartOfLabel] != "" {
					t.Errorf("%s: %v", name, o)
				}
			}
		})
	}
}

func TestTheGarbageCollectorOrphansFirst(t *testing.T) {
	f := deleted(t)
	f.change(shop, func(o *unstructured.Unstructured) { o.SetFinalizers(append(o.GetFinalizers(), orphanFinalizer)) })
	if out := f.reconcile(); len(f.calls) > 0 || out.RequeueAfter != orphaningDelay {
		t.Errorf("at first: %q, again after %s", f.calls, out.RequeueAfter)
	}
	f.pass(orphaningDelay / 2)
	f.change(shop, func(o *unstructured.Unstructured) {
		o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == orphanFinalizer }))
	})
	f.until("remove finalizers of Web shop")
	for _, name := range []string{"a", "b"} {
		if f.objects[keyOf(name)] == nil {
			t.Errorf("%s is deleted", name)
		}
	}
}

func TestNothingIsDeletedBeforeThePropagationPolicyIsKnown(t *testing.T) {
	f := deleted(t)
	f.fail["read the deletion of Web shop"] = errors.New("the connection is lost")
	if out := f.reconcile(); out.Err == nil {
		t.Error("it isn't tried again")
	}
	f.wantCalls("read the deletion of Web shop")
}

func TestADeletionThatTheWatchDeliveredIsNotReadAgain(t *testing.T) {
	f := deleted(t)
	f.deletionSeen = true
	f.fail["read the deletion of Web shop"] = errors.New("the connection is lost")
	f.until("remove finalizers of Web shop")
}

func TestRetainedObjectsStayForTheNextIncarnation(t *testing.T) {
	f := deleted(t)
	f.annotate(shop, v1alpha1.DeletionPolicyAnnotation, "b=Retain")
	f.until("remove finalizers of Web shop")
	b := f.objects[keyOf("b")]
	if b == nil || b.GetAnnotations()[v1alpha1.RetainedFromAnnotation] != "i" || b.GetLabels()[v1alpha1.ApplySetPartOfLabel] == "" {
		t.Errorf("got %v", b)
	}
}

func TestAProtectedChildThatIsLeftBehindIsDisowned(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.crds = map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition{webKind.GroupKind(): {ObjectMeta: metav1.ObjectMeta{Name: "webs.example.org", UID: "crd"}}}
	f.reconcile()
	f.annotate(keyOf("a"), v1alpha1.ProtectAnnotation, "precious")
	f.annotate(shop, v1alpha1.ForceAfterAnnotation, "1m")
	f.delete()
	f.pass(time.Hour)
	f.until("change ConfigMap a")
	f.until("remove finalizers of Web shop")
	if refs := f.objects[keyOf("a")].GetOwnerReferences(); len(refs) > 0 {
		t.Errorf("owner references: %v", refs)
	}
}

func TestAFinalizerThatCannotBeRemovedIsReported(t *testing.T) {
	f := deleted(t)
	f.fail["remove finalizers of Web shop"] = errors.New("no")
	f.until("remove finalizers of Web shop")
	if got := f.blockers(); len(got) != 1 || got[0] != "shop DeniedByWebhook: the finalizer cannot be removed: no" {
		t.Errorf("got %q", got)
	}
	f.fail = nil
	f.pass(time.Minute)
	f.until("remove finalizers of Web shop")
	if f.shop() != nil {
		t.Error("it is there still")
	}
}

func TestAnInstanceThatIsGoneMeanwhileIsDone(t *testing.T) {
	f := deleted(t)
	f.fail["remove finalizers of Web shop"] = apierrors.NewNotFound(webs, "shop")
	f.until("remove finalizers of Web shop")
	f.wantCalls("remove finalizers of Web shop")
}

func TestAFinalizerWhoseRemovalWasStaleIsRemovedLater(t *testing.T) {
	f := deleted(t)
	f.fail["remove finalizers of Web shop"] = pageNotFound()
	var out reconcile.Result
	for range 20 {
		if out = f.reconcile(); slices.Contains(f.calls, "remove finalizers of Web shop") {
			break
		}
		f.pass(out.RequeueAfter)
	}
	f.wantCalls("remove finalizers of Web shop")
	wantRetryIfStale(t, pageNotFound(), out)
	f.fail = nil
	f.pass(out.RequeueAfter)
	f.reconcile()
	if f.shop() != nil {
		t.Error("it is there still")
	}
}

func TestOtherControllersFinalizersAreReportedAfterAWhile(t *testing.T) {
	f := deleted(t)
	f.change(shop, func(o *unstructured.Unstructured) { o.SetFinalizers(append(o.GetFinalizers(), "other/keeps")) })
	f.until("remove finalizers of Web shop")
	f.reconcileFor(5)
	if got := f.blockers(); len(got) != 1 || !strings.HasPrefix(got[0], "shop Finalizer: held by finalizer other/keeps") {
		t.Errorf("got %q", got)
	}
}

func TestADeletionNeedsNoDefinition(t *testing.T) {
	f := deleted(t)
	f.composer.Store(nil)
	f.until("delete ConfigMap b")
	f.until("delete ConfigMap a")
	f.until("remove finalizers of Web shop")
}

func TestAModifiedInventoryIsCompletedFromTheDefinition(t *testing.T) {
	f := deleted(t)
	f.annotate(shop, v1alpha1.ApplySetKindsAnnotation, "Secret")
	f.until("delete ConfigMap b")
}

func TestAKindThatIsGoneHasNoObjects(t *testing.T) {
	for name, given := range map[string]func(*fixture){
		"The kind is not served": func(f *fixture) { f.gone = map[string]bool{"ConfigMap": true} },
		"Its watch finds it first": func(f *fixture) {
			f.unsynced = map[string]watch.State{"ConfigMap": {Phase: watch.Unavailable, Reason: watch.WaitingForKind}}
			f.goneAfterLookup = map[string]bool{"ConfigMap": true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := deleted(t)
			given(f)
			f.until("remove finalizers of Web shop")
		})
	}
}

// A gateway before the API server answers a list with 404, for example, and the objects are there.
func TestAKindWhoseObjectsAreNotFoundByItsWatchIsNotGone(t *testing.T) {
	f := deleted(t)
	f.unsynced = map[string]watch.State{"ConfigMap": {Phase: watch.Unavailable, Reason: watch.WaitingForKind}}
	f.reconcileFor(3)
	if f.shop() == nil {
		t.Fatal("the instance is gone before its children")
	}
	if got := f.blockers(); len(got) == 0 || !strings.Contains(got[0], "cannot determine which objects remain") {
		t.Errorf("the blockers are %q", got)
	}
	f.unsynced = nil
	f.until("remove finalizers of Web shop")
}

func TestObjectsOfUnansweredWritesAreListedBeforeTheFinalizerIsRemoved(t *testing.T) {
	lost := func(t *testing.T) *fixture {
		f := newReconciled(t, configMap("a"))
		f.nodes.wanted = append(f.nodes.wanted, configMap("b"))
		f.fail["create ConfigMap b"] = errors.New("the connection is lost")
		f.reconcile()
		f.delete()
		f.until("delete ConfigMap a")
		return f
	}
	t.Run("An object that was made is taken apart too", func(t *testing.T) {
		f := lost(t)
		made := newReconciled(t, configMap("b")).objects[keyOf("b")]
		f.Cluster = &late{fakeCluster: fakeCluster{f.fake}, object: made}
		f.until("list ConfigMap all")
		f.until("delete ConfigMap b")
		f.until("remove finalizers of Web shop")
	})
	t.Run("Where nothing was made the instance goes", func(t *testing.T) {
		f := lost(t)
		f.reconcile()
		f.wantCalls("list ConfigMap all", "remove finalizers of Web shop")
	})
	t.Run("It is looked for once", func(t *testing.T) {
		f := lost(t)
		f.fail["remove finalizers of Web shop"] = errors.New("no")
		f.reconcile()
		f.pass(time.Minute)
		f.until("remove finalizers of Web shop")
		if slices.Contains(f.calls, "list ConfigMap all") {
			t.Errorf("requests: %q", f.calls)
		}
	})
	t.Run("It stays while the list fails", func(t *testing.T) {
		f := lost(t)
		f.fail["list ConfigMap all"] = errors.New("the connection is lost")
		if out := f.reconcile(); out.Err == nil {
			t.Error("it isn't tried again")
		}
		f.wantCalls("list ConfigMap all")
	})
	t.Run("A kind that is gone has no objects", func(t *testing.T) {
		f := lost(t)
		f.gone = map[string]bool{"ConfigMap": true}
		f.reconcile()
		f.wantCalls("remove finalizers of Web shop")
	})
}

// late is a server that has an object whose event is still on its way to the cache.
type late struct {
	fakeCluster
	object *unstructured.Unstructured
}

func (l *late) ListIn(ctx context.Context, kind schema.GroupVersionKind, namespace, selector string) ([]unstructured.Unstructured, error) {
	if l.object != nil {
		l.put(l.object)
		l.object = nil
	}
	return l.fakeCluster.ListIn(ctx, kind, namespace, selector)
}

func TestChildrenOfAnInstanceDeletedDespiteItsFinalizerAreRemoved(t *testing.T) {
	deletedDespiteFinalizers := func(t *testing.T) *fixture {
		f := newReconciled(t, configMap("a"), configMap("b", "a"))
		f.last = f.shop()
		delete(f.objects, shop)
		return f
	}
	t.Run("Its children go in reverse order", func(t *testing.T) {
		f := deletedDespiteFinalizers(t)
		f.reconcile()
		f.wantCalls("delete ConfigMap b")
		f.reconcile()
		f.wantCalls("delete ConfigMap a")
		f.reconcile()
		f.wantCalls("wake the definition")
		if f.last != nil {
			t.Error("it is remembered still")
		}
	})
	t.Run("What can't be looked up is tried again", func(t *testing.T) {
		f := deletedDespiteFinalizers(t)
		f.kindsErr = errors.New("discovery is down")
		if out := f.reconcile(); out.Err == nil {
			t.Errorf("got %+v", out)
		}
	})
	t.Run("Without our finalizer it went as it should", func(t *testing.T) {
		f := deletedDespiteFinalizers(t)
		f.last = f.last.DeepCopy()
		f.last.SetFinalizers([]string{"other/keeps"})
		f.reconcile()
		f.wantCalls("wake the definition")
	})
	t.Run("What it left is the next instance's of its name", func(t *testing.T) {
		f := deletedDespiteFinalizers(t)
		next := named(webKind, "prod", "shop")
		next.SetUID("next")
		next.SetGeneration(1)
		f.put(next)
		f.reconcile()
		if f.last != nil {
			t.Error("it is remembered still")
		}
	})
}

// TestOverridesThatAreNotAllowedAreReported has an instance set what its definition does not allow.
func TestOverridesThatAreNotAllowedAreReported(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.nodes.defaults.Overrides = inventory.Overrides{ForceDelete: v1alpha1.OverrideDeny}
	f.reconcile()
	if _, there := condition.Read(f.shop()).Get(v1alpha1.InstanceOverridesIgnored); there {
		t.Error("nothing is ignored, and the status says so")
	}
	f.annotate(shop, v1alpha1.ForceAfterAnnotation, "1m")
	f.annotate(shop, v1alpha1.DeletionDefaultsAnnotation, "")
	f.reconcile()
	const message = "espalier.dev/force-after is ignored: ResourceGraphDefinition webs.example.org does not allow it; its author can, with spec.instanceOverrides.forceDelete: Allow"
	f.wantCondition(v1alpha1.InstanceOverridesIgnored, "True OverrideNotAllowed: "+message)
	f.wantCondition(v1alpha1.InstanceReady, "True")
	f.wantEvent("Warning OverrideNotAllowed: " + message)
	if got := f.shop().GetAnnotations()[v1alpha1.DeletionDefaultsAnnotation]; got != "overrides=forceDelete:Deny" {
		t.Errorf("recorded is %q", got)
	}
	f.reconcile()
	f.wantCalls()

	f.fail["delete ConfigMap a"] = errors.New("no deletions today")
	f.annotate(shop, v1alpha1.DeletionDefaultsAnnotation, "")
	f.delete()
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceOverridesIgnored, "True OverrideNotAllowed: "+message)
	f.pass(time.Hour)
	f.reconcile()
	if d := report.ReadDeletion(f.shop()); d == nil || d.Left > 0 {
		t.Errorf("the deletion: %+v", d)
	}
	f.nodes.defaults.Overrides.ForceDelete = ""
	f.until("remove finalizers of Web shop")
	if f.objects[keyOf("a")] == nil {
		t.Error("once it is allowed, the blocker is not left behind")
	}
}

// TestRecordedSettingsCountWithoutADefinition deletes an instance that no composer composes.
func TestRecordedSettingsCountWithoutADefinition(t *testing.T) {
	cases := map[string]struct {
		recorded, policy string
		left             bool
	}{
		"What is retained stays":               {"Retain=a", "", true},
		"No annotation deletes it":             {"Retain=a,overrides=deletionPolicy:All", "Delete", true},
		"An annotation preserves more":         {"", "Retain", true},
		"Unless it is recorded that none does": {"overrides=deletionPolicy:None", "Retain", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newReconciled(t, configMap("a"))
			f.annotate(shop, v1alpha1.DeletionDefaultsAnnotation, tc.recorded)
			f.annotate(shop, v1alpha1.DeletionPolicyAnnotation, tc.policy)
			f.composer.Store(nil)
			f.delete()
			f.until("remove finalizers of Web shop")
			if left := f.objects[keyOf("a")] != nil; left != tc.left {
				t.Errorf("left: %t", left)
			}
		})
	}
}

// TestARemovalThatIsInterruptedIsNoRefusal has the program stop during a request: that is no cause for which the object stays.
func TestARemovalThatIsInterruptedIsNoRefusal(t *testing.T) {
	var logged []string
	log := funcr.New(func(_, text string) { logged = append(logged, text) }, funcr.Options{})
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), log))
	c := &removalRequest{o: &unstructured.Unstructured{}, verb: "delete", do: func(context.Context) error {
		cancel()
		return ctx.Err()
	}}
	newReconciled(t, configMap("a")).send(ctx, c)
	if c.answered || c.reason != "" || len(logged) > 0 {
		t.Errorf("answered %t, reason %q, logged %q", c.answered, c.reason, logged)
	}
}
