package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/espalier-dev/espalier/internal/object"
)

// status is an error that the API server sends on a watch, and ends it with.
func status(code int64, reason string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "code": code, "metadata": map[string]any{},
	}}
}

// breakOff ends the watches of a script with an error.
func (s *script) breakOff(code int64, reason string) {
	s.deliver(apiwatch.Error, status(code, reason))
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.watches)
}

// A subscriber that is being deleted releases its finalizer when a read finds no children.
// The state of a kind that is gone must say so before the deletions of its objects wake it.
func TestDeletionsOfAGoneKindComeAfterItsState(t *testing.T) {
	var there []*unstructured.Unstructured
	for i := range 50 {
		there = append(there, made(vpc, fmt.Sprint("a/", i), i+1, partOf, "owner"))
	}
	sc := newScript(there...)
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		var mu sync.Mutex
		woken, misled := 0, 0
		s.env.Enqueue = func(_ Subscriber, c Cause) {
			if c.Change != Deleted {
				return
			}
			lease := s.Begin(subscriberOf("worker"))
			defer lease.Discard()
			left, state := lease.Children(vpc, "owner")
			mu.Lock()
			defer mu.Unlock()
			woken++
			if state.Phase == Synced && len(left) == 0 {
				misled++
			}
		}
		s.commit("i", ChildrenOf(vpc, "owner"))
		s.expectState(t, vpc, Managed(), Synced, "")
		s.install(vpc, nil)
		s.KindChanged(vpc.GroupKind(), KindDeleted)
		s.expectState(t, vpc, Managed(), Unavailable, WaitingForKind)
		if woken != 50 || misled != 0 {
			t.Errorf("of %d wake-ups %d read that nothing is left", woken, misled)
		}
	})
}

func TestAKindThatIsNotServedKeepsItsObjects(t *testing.T) {
	sc := newScript(made(vpc, "a/x", 1, partOf, "o"))
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		var mu sync.Mutex
		served := true
		resolve := s.env.Resolve
		s.env.Resolve = func(ctx context.Context, gvk schema.GroupVersionKind) (Resource, error) {
			mu.Lock()
			defer mu.Unlock()
			if !served {
				return Resource{}, &UnavailableError{Reason: WaitingForKind, Message: "v1alpha1 is not served"}
			}
			return resolve(ctx, gvk)
		}
		s.commit("i", Child(vpc, "a", "x"))
		s.expectState(t, vpc, Managed(), Synced, "")
		s.recorder.take()
		mu.Lock()
		served = false
		mu.Unlock()
		s.KindChanged(vpc.GroupKind(), KindUpdated)
		s.expectState(t, vpc, Managed(), Unavailable, WaitingForKind)
		s.expect(t, "a notification of the kind, and no deletion of an object", "i: KindState Vpc ")
		if got := s.Owned(vpc, "o"); len(got) != 1 {
			t.Errorf("there are %d objects, want the one that was there", len(got))
		}
	})
}

// A subscriber that began when the kind was no longer served, after a restart for example,
// knows no objects whose deletion would wake it.
func TestDeletionOfAnUnreadableKindNotifies(t *testing.T) {
	withScriptedHub(t, scripts{}, func(t *testing.T, s *scriptedHub) {
		var mu sync.Mutex
		gone := false
		s.env.Resolve = func(context.Context, schema.GroupVersionKind) (Resource, error) {
			mu.Lock()
			defer mu.Unlock()
			return Resource{}, &UnavailableError{Reason: WaitingForKind, Message: "v1alpha1 is not served", Gone: gone}
		}
		s.commit("i", ChildrenOf(vpc, "o"))
		s.expectState(t, vpc, Managed(), Unavailable, WaitingForKind)
		s.recorder.take()
		mu.Lock()
		gone = true
		mu.Unlock()
		s.KindChanged(vpc.GroupKind(), KindDeleted)
		synctest.Wait()
		s.expect(t, "the kind is gone, and its objects with it", "i: KindState Vpc ")
		pass(time.Hour)
		s.expect(t, "one notification")
	})
}

// TestAChangedKindIsListedTwice has the API server read objects the old way for
// a moment after it announced the new one, and then begin with the new way
// without a word.
func TestAChangedKindIsListedTwice(t *testing.T) {
	sc := newScript(made(vpc, "a/x", 1, partOf, "o"))
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(vpc, "a", "x"))
		pass(time.Minute)
		s.KindChanged(vpc.GroupKind(), KindUpdated)
		pass(10 * time.Millisecond)
		s.recorder.take()
		changed := made(vpc, "a/x", 1, partOf, "o")
		changed.Object["spec"] = map[string]any{"defaulted": true}
		sc.mu.Lock()
		sc.objects[objectName{"a", "x"}] = changed
		sc.mu.Unlock()
		pass(2 * secondListDelay)
		if got, _ := s.Get(vpc, "a", "x"); got.Object["spec"] == nil {
			t.Error("the object is read as it was under the old schema")
		}
		s.expect(t, "an object that reads differently is routed", "i: Updated Vpc a/x")
		lists := sc.lists
		pass(time.Hour)
		if sc.lists != lists {
			t.Errorf("listed %d more times, though nothing changed", sc.lists-lists)
		}
	})
}

func TestAWatchThatWasInSyncIsResumedSoon(t *testing.T) {
	forbid := func(string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "vpcs"}, "", errors.New("no role"))
	}
	cases := map[string]struct {
		before func(*script)
		code   int64
		reason string
	}{
		"after it was forbidden for long":   {func(sc *script) { sc.fail(forbid); pass(10 * time.Minute); sc.fail(nil) }, 410, "Expired"},
		"after a revision that is too old":  {func(*script) {}, 410, "Expired"},
		"after an error of the API server":  {func(*script) {}, 500, "InternalError"},
		"after a conversion webhook failed": {func(*script) {}, 503, "ServiceUnavailable"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sc := newScript(made(vpc, "a/x", 1, partOf, "o"))
			withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
				s.commit("i", Child(vpc, "a", "x"))
				tc.before(sc)
				pass(2 * lastRetry)
				s.expectState(t, vpc, Managed(), Synced, "")
				for range 8 { // it doesn't grow, either
					s.recorder.take()
					sc.breakOff(tc.code, tc.reason)
					sc.write(made(vpc, "a/x", 0, partOf, "o")) // missed
					pass(time.Second)
					s.expect(t, "what was missed meanwhile", "i: Updated Vpc a/x")
					pass(20 * time.Second)
				}
			})
		})
	}
}

// TestServedReadsTheStoreOfTheKindWatch keeps one object in two watches, of
// which that of the whole kind is faster.
func TestServedReadsTheStoreOfTheKindWatch(t *testing.T) {
	whole, managed := newScript(made(vpc, "a/x", 1, partOf, "o")), newScript(made(vpc, "a/x", 1, partOf, "o"))
	withScriptedHub(t, scripts{vpc: whole}, func(t *testing.T, s *scriptedHub) {
		s.env.open = func(_ Resource, sel Selection) source {
			if sel == All() {
				return whole
			}
			return managed
		}
		s.commit("parent", ChildrenOf(vpc, "o"))
		synctest.Wait()
		var found []bool
		s.WatchKind(vpc, func(k object.Key, c Cause) {
			if k.Name != "" {
				_, ok := s.GetCached(vpc, k.Namespace, k.Name)
				found = append(found, ok)
			}
		})
		synctest.Wait()
		whole.remove("a", "x")
		synctest.Wait()
		if !slices.Equal(found, []bool{true, false}) {
			t.Errorf("the reports of x, which came and went, found it: %t", found)
		}
	})
}

func TestAChangeAfterADeletionIsNotLost(t *testing.T) {
	sc := newScript(made(vpc, "a/x", 1, partOf, "o"))
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(vpc, "a", "x"))
		synctest.Wait()
		before, began := s.State(vpc, Managed()), time.Now()
		for _, change := range []KindChange{KindDeleted, KindAdded, KindUpdated} {
			s.KindChanged(vpc.GroupKind(), change)
		}
		if is := s.expectState(t, vpc, Managed(), Synced, ""); is.Generation == before.Generation || time.Since(began) > 0 {
			t.Errorf("served again after %s, generation %d after %d", time.Since(began), is.Generation, before.Generation)
		}
	})
}

func TestTombstonesAreRemovedAfterABurst(t *testing.T) {
	withScriptedHub(t, scripts{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
		s.commit("keep", Child(configMap, "a", "x"))
		synctest.Wait()
		for i := range 1000 {
			o := made(configMap, fmt.Sprint("a/", i), 200+i, partOf, "o")
			s.Record(o, subscriberOf("w"))
			s.RecordGone(configMap, "a", o.GetName(), string(o.GetUID()), subscriberOf("w"))
		}
		pass(4 * provisionalTTL)
		tombstones := s.kinds[configMap].actors.get(Managed()).store.tombstones
		if n := len(tombstones.byUID) + len(tombstones.uids); n != 0 {
			t.Errorf("%d tombstones are kept", n)
		}
	})
}

func TestForgetKindForgetsAllItsSubscribers(t *testing.T) {
	withScriptedHub(t, scripts{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", ChildrenOf(configMap, "o"))
		s.commit("j", ChildrenOf(configMap, "p"))
		other := Subscriber{object.Key{Group: "kro.run", Kind: "Eks", Name: "k"}}
		lease := s.Begin(other)
		lease.Watch(ChildrenOf(configMap, "q"))
		lease.Commit()
		s.ForgetKind(vpc.GroupKind())
		if got := s.Stats(); len(got) != 1 || got[0].Subscribers != 1 || len(s.subs) != 1 {
			t.Errorf("left are %+v", got)
		}
		s.ForgetKind(other.GroupKind())
		pass(time.Minute)
		if got := s.Stats(); len(got) != 0 {
			t.Errorf("left are %+v", got)
		}
	})
}

// TestRecheckAccessEndsAnOpenWatchWithoutPermission revokes a right without ending the watches that
// it has opened.
func TestRecheckAccessEndsAnOpenWatchWithoutPermission(t *testing.T) {
	objects, others := newScript(made(vpc, "ns/a", 1, partOf, "x")), newScript()
	withScriptedHub(t, scripts{vpc: objects, configMap: others}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(vpc, "a", "x"), Child(configMap, "b", "x"))
		s.expectState(t, vpc, Managed(), Synced, "")
		s.recorder.take()
		objects.mu.Lock()
		objects.failure = func(string) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "vpcs"}, "", errors.New("no role"))
		}
		objects.mu.Unlock()
		pass(time.Minute)
		s.expectState(t, vpc, Managed(), Synced, "") // the watch goes on
		lists := others.lists
		s.RecheckAccess(schema.GroupResource{Group: vpc.Group, Resource: "others"})
		s.expectState(t, vpc, Managed(), Synced, "")
		s.RecheckAccess(schema.GroupResource{Group: vpc.Group, Resource: vpc.Kind}) // the resource name that the scripted hub uses
		s.expectState(t, vpc, Managed(), Unavailable, Forbidden)
		s.expect(t, "subscribers are notified", "i: KindState Vpc ")
		if others.lists != lists {
			t.Errorf("another kind was listed %d times for it", others.lists-lists)
		}
		objects.fail(nil)
		pass(time.Minute)
		s.expectState(t, vpc, Managed(), Synced, "")
	})
}

// TestAForbiddenWatchRetriesWhenARoleComes grants what was forbidden for so long that the next attempt
// would be minutes away.
func TestAForbiddenWatchRetriesWhenARoleComes(t *testing.T) {
	roles := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	forbidden, granted := newScript(), newScript(made(roles, "/old", 1))
	forbid := func(string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "vpcs"}, "", errors.New("no role"))
	}
	forbidden.fail(forbid)
	withScriptedHub(t, scripts{vpc: forbidden, roles: granted}, func(t *testing.T, s *scriptedHub) {
		s.env.PermissionKinds = []schema.GroupVersionKind{roles}
		s.commit("i", Child(vpc, "a", "x"))
		s.expectState(t, vpc, Managed(), Unavailable, Forbidden)
		s.expectState(t, roles, All(), Synced, "")
		pass(10 * time.Minute)
		refused := forbidden.lists
		began := time.Now()
		granted.put(made(roles, "/other", 0))
		synctest.Wait()
		s.expectState(t, vpc, Managed(), Unavailable, Forbidden) // it wasn't that one
		forbidden.fail(nil)
		granted.put(made(roles, "/new", 0))
		s.expectState(t, vpc, Managed(), Synced, "")
		if took := time.Since(began); took > 0 {
			t.Errorf("healed %s after the role came, with %d lists", took, forbidden.lists-refused)
		}
		pass(time.Minute)
		s.expectState(t, roles, All(), Unwatched, "") // nothing is forbidden

		forbidden.fail(forbid)
		pass(time.Minute)
		s.expectState(t, roles, All(), Synced, "")
		s.Forget(subscriberOf("i"))
		pass(2 * time.Minute)
		if got := s.Stats(); len(got) != 0 {
			t.Errorf("left are %+v", got)
		}
	})
}

// TestAFailingChangeOfAKindNotifiesToo changes a kind that isn't served into one that
// still isn't, in this version: it may be in another.
func TestAFailingChangeOfAKindNotifiesToo(t *testing.T) {
	withScriptedHub(t, scripts{}, func(t *testing.T, s *scriptedHub) {
		s.env.Resolve = func(context.Context, schema.GroupVersionKind) (Resource, error) {
			return Resource{}, &UnavailableError{Reason: WaitingForKind, Message: "v1alpha1 is not served"}
		}
		s.commit("i", Child(vpc, "a", "x"))
		s.expectState(t, vpc, Managed(), Unavailable, WaitingForKind)
		s.recorder.take()
		pass(time.Hour)
		s.expect(t, "nothing changed")
		s.KindChanged(vpc.GroupKind(), KindUpdated)
		s.expect(t, "the kind changed", "i: KindState Vpc ")
	})
}

// TestReadAndStateComeFromTheSameActor keeps an object in a store whose watch fails,
// after its own watch has seen it go.
func TestReadAndStateComeFromTheSameActor(t *testing.T) {
	one, managed := newScript(made(vpc, "a/x", 1, partOf, "o")), newScript(made(vpc, "a/x", 1, partOf, "o"))
	withScriptedHub(t, scripts{vpc: one}, func(t *testing.T, s *scriptedHub) {
		s.env.open = func(_ Resource, sel Selection) source {
			if sel == Managed() {
				return managed
			}
			return one
		}
		s.commit("parent", ChildrenOf(vpc, "o"))
		lease := s.Begin(subscriberOf("i"))
		defer lease.Discard()
		lease.Object(vpc, "a", "x")
		synctest.Wait()
		managed.fail(func(string) error { return apierrors.NewInternalError(errors.New("conversion webhook failed")) })
		one.remove("a", "x")
		pass(time.Hour)
		if found, state := lease.Object(vpc, "a", "x"); found != nil || state.Phase != Synced {
			t.Errorf("found %v, %s", found, state.Phase)
		}
	})
}

// TestAWatchThatBreaksAtOnceBacksOff goes through a proxy that cuts off every
// watch: what it takes is a list each time.
func TestAWatchThatBreaksAtOnceBacksOff(t *testing.T) {
	sc := newScript(made(vpc, "a/x", 1))
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		cutter, stop := context.WithCancel(t.Context())
		var cutting sync.WaitGroup
		cutting.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					sc.deliver(apiwatch.Error, status(500, "InternalError"))
					sc.mu.Lock()
					clear(sc.watches)
					sc.mu.Unlock()
				case <-cutter.Done():
					return
				}
			}
		})
		s.commit("i", Child(vpc, "a", "x"))
		pass(time.Hour)
		sc.mu.Lock()
		lists := sc.lists
		sc.mu.Unlock()
		if lists > 100 {
			t.Errorf("listed %d times within the hour", lists)
		}
		stop()
		cutting.Wait()
	})
}

// TestAStartingKindIsNotUnavailableAtOnce refuses its first requests
// as an API server does that isn't ready to serve it.
func TestAStartingKindIsNotUnavailableAtOnce(t *testing.T) {
	withScriptedHub(t, scripts{}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(vpc, "a", "x"))
		pass(10 * time.Minute)
		s.recorder.take()
		sc := newScript(made(vpc, "a/x", 1))
		sc.fail(func(string) error { return apierrors.NewTooManyRequests("storage is (re)initializing", 1) })
		s.install(vpc, sc)
		s.KindChanged(vpc.GroupKind(), KindAdded)
		pass(500 * time.Millisecond)
		sc.fail(nil)
		pass(2 * time.Second)
		s.expectState(t, vpc, Managed(), Synced, "")
		s.expect(t, "it is there, and nothing was wrong with it in between", "i: KindState Vpc ", "i: KindState Vpc ")

		sc.fail(func(string) error {
			return apierrors.NewTooManyRequests("storage is (re)initializing: conversion failed", 1)
		})
		pass(time.Minute)
		s.expectState(t, vpc, Managed(), Unavailable, Degraded)
	})
}
