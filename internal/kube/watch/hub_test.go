package watch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

type scripts = map[schema.GroupVersionKind]*script

func (s *scriptedHub) expect(t *testing.T, reason string, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, s.recorder.take()); diff != "" {
		t.Errorf("%s: wake-ups (-want +got):\n%s", reason, diff)
	}
}

func (s *scriptedHub) expectState(t *testing.T, gvk schema.GroupVersionKind, sel Selection, phase Phase, reason Reason) State {
	t.Helper()
	synctest.Wait()
	got := s.State(gvk, sel)
	if got.Phase != phase || got.Reason != reason {
		t.Errorf("state is %q %q (%s), want %q %q", got.Phase, got.Reason, got.Message, phase, reason)
	}
	return got
}

func TestEventsReachThoseTheyConcern(t *testing.T) {
	maps := newScript(made(configMap, "a/one", 1, partOf, "x"), made(configMap, "a/two", 2, partOf, "y"))
	withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
		s.commit("by-name", Child(configMap, "a", "one"))
		s.expect(t, "a first list is news of the kind only", "by-name: KindState ConfigMap ")
		s.commit("by-owner", ChildrenOf(configMap, "y"))
		s.expect(t, "whoever comes later is answered by Want")

		maps.put(made(configMap, "a/one", 0, partOf, "x"))
		s.expect(t, "a change by name", "by-name: Updated ConfigMap a/one")
		maps.put(made(configMap, "b/one", 0, partOf, "y"))
		s.expect(t, "a new object by its owner", "by-owner: Added ConfigMap b/one")
		maps.put(made(configMap, "b/one", 0, partOf, "z"))
		s.expect(t, "an object that stops matching", "by-owner: Updated ConfigMap b/one")
		maps.remove("a", "one")
		s.expect(t, "a deletion", "by-name: Deleted ConfigMap a/one")
		if got := len(s.Owned(configMap, "y")); got != 1 {
			t.Errorf("y owns %d objects, want 1", got)
		}
	})
}

func TestSelectorsRouteByNamespace(t *testing.T) {
	maps := newScript()
	withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
		app, _ := labels.Parse("app=db")
		some, _ := labels.Parse("app,tier notin (front)")
		s.commit("here", Matching(configMap, "a", app))
		s.commit("anywhere", Matching(configMap, "", some))
		s.commit("nowhere", Matching(configMap, "", labels.Nothing()))
		synctest.Wait()
		s.recorder.take()
		// The script doesn't select, so that each of the three watches delivers.
		maps.put(made(configMap, "a/x", 0, "app", "db"))
		synctest.Wait()
		got := map[string]bool{}
		for _, c := range s.recorder.take() {
			got[c] = true
		}
		want := map[string]bool{"here: Added ConfigMap a/x": true, "anywhere: Added ConfigMap a/x": true}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if got := s.Select(configMap, "a", app); len(got) != 1 {
			t.Errorf("selected %d objects, want 1", len(got))
		}
		if got := s.Select(configMap, "b", app); len(got) != 0 {
			t.Errorf("selected %d objects in an unwatched namespace", len(got))
		}
	})
}

func TestCommitReplacesAllTargets(t *testing.T) {
	maps := newScript(made(configMap, "a/old", 1, partOf, "x"), made(configMap, "a/new", 2, partOf, "x"))
	touch := func(t *testing.T, s *scriptedHub, reason string, want ...string) {
		maps.put(made(configMap, "a/old", 0, partOf, "x"))
		maps.put(made(configMap, "a/new", 0, partOf, "x"))
		s.expect(t, reason, want...)
	}
	withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(configMap, "a", "old"))
		synctest.Wait()
		s.recorder.take()

		l := s.Begin(subscriberOf("i"))
		if got := l.Watch(Child(configMap, "a", "new")); got.Phase != Synced {
			t.Errorf("state is %v, want Synced", got)
		}
		both := []string{"i: Updated ConfigMap a/new", "i: Updated ConfigMap a/old"}
		touch(t, s, "while the lease is open", both...)
		l.Discard()
		touch(t, s, "discarded", "i: Updated ConfigMap a/old")

		s.commit("i", Child(configMap, "a", "new"))
		touch(t, s, "committed", "i: Updated ConfigMap a/new")
		l.Discard()
		touch(t, s, "a late discard of an older lease", "i: Updated ConfigMap a/new")

		s.Forget(subscriberOf("i"))
		touch(t, s, "forgotten")
		if len(s.subs) != 0 {
			t.Errorf("%d subscriptions are left", len(s.subs))
		}
	})
}

func TestAWatchStopsAfterItsGracePeriod(t *testing.T) {
	maps := newScript()
	withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(configMap, "a", "x"))
		s.expectState(t, configMap, Managed(), Synced, "")
		s.Forget(subscriberOf("i"))
		pass(29 * time.Second)
		s.expectState(t, configMap, Managed(), Synced, "")
		s.commit("i", Child(configMap, "a", "x"))
		pass(time.Minute)
		s.expectState(t, configMap, Managed(), Synced, "")
		if maps.lists != 1 {
			t.Errorf("listed %d times, want once", maps.lists)
		}
		s.Forget(subscriberOf("i"))
		s.commit("i", Child(configMap, "a", "x"))
		s.Forget(subscriberOf("i"))
		pass(31 * time.Second)
		s.expectState(t, configMap, Managed(), Unwatched, "")
		if len(s.kinds) != 0 {
			t.Errorf("%d kinds are left", len(s.kinds))
		}
	})
}

func TestAMissingKindDoesNotAffectOthers(t *testing.T) {
	maps := newScript()
	withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(vpc, "a", "x"), Child(configMap, "a", "x"))
		got := s.expectState(t, vpc, Managed(), Unavailable, WaitingForKind)
		if got.Message != "no Vpc" {
			t.Errorf("message is %q", got.Message)
		}
		s.expectState(t, configMap, Managed(), Synced, "")
		s.expect(t, "one notification for each kind", "i: KindState ConfigMap ", "i: KindState Vpc ")

		pass(10 * time.Minute) // well into the longest back-off
		s.expect(t, "nothing changed")
		s.install(vpc, newScript(made(vpc, "a/x", 5)))
		before := time.Now()
		s.KindChanged(vpc.GroupKind(), KindAdded)
		s.expectState(t, vpc, Managed(), Synced, "")
		if waited := time.Since(before); waited != 0 {
			t.Errorf("the kind was noticed after %s", waited)
		}
		s.expect(t, "the kind arrived", "i: KindState Vpc ")
	})
}

// TestTheRemedyOfAKindLastsAsLongAsItIsMissing has a kind that something else than a CustomResourceDefinition serves.
func TestTheRemedyOfAKindLastsAsLongAsItIsMissing(t *testing.T) {
	withScriptedHub(t, scripts{}, func(t *testing.T, s *scriptedHub) {
		resolve := s.env.Resolve
		s.env.Resolve = func(ctx context.Context, gvk schema.GroupVersionKind) (Resource, error) {
			r, err := resolve(ctx, gvk)
			if missing := (*UnavailableError)(nil); errors.As(err, &missing) {
				missing.Remedy = "install the provider"
			}
			return r, err
		}
		s.commit("i", Child(vpc, "a", "x"))
		if got := s.expectState(t, vpc, Managed(), Unavailable, WaitingForKind); got.Remedy != "install the provider" {
			t.Errorf("the remedy is %q", got.Remedy)
		}
		s.install(vpc, newScript())
		s.KindChanged(vpc.GroupKind(), KindAdded)
		if got := s.expectState(t, vpc, Managed(), Synced, ""); got.Remedy != "" {
			t.Errorf("in sync, and still to be remedied: %q", got.Remedy)
		}
	})
}

func TestAForbiddenKindSaysWhatIsForbidden(t *testing.T) {
	forbidden := newScript()
	refuse := func(verbs ...string) {
		forbidden.fail(func(verb string) error {
			for _, v := range verbs {
				if v == verb {
					return apierrors.NewForbidden(schema.GroupResource{Group: "kro.run", Resource: "vpcs"}, "", errors.New("no role"))
				}
			}
			return nil
		})
	}
	refuse("list", "watch")
	withScriptedHub(t, scripts{vpc: forbidden}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(vpc, "a", "x"))
		got := s.expectState(t, vpc, Managed(), Unavailable, Forbidden)
		since := got.Since
		if want := "list vpcs.kro.run is forbidden: no role"; got.Message != want {
			t.Errorf("message is %q, want %q", got.Message, want)
		}
		s.expect(t, "one notification", "i: KindState Vpc ")
		refuse("watch")
		pass(5 * time.Minute)
		got = s.expectState(t, vpc, Managed(), Unavailable, Forbidden)
		if want := "watch vpcs.kro.run is forbidden: no role"; got.Message != want {
			t.Errorf("message is %q, want %q", got.Message, want)
		}
		s.expect(t, "another permission is missing; a list that succeeds without a watch is no recovery, and flaps nothing", "i: KindState Vpc ")
		if got.Since != since {
			t.Errorf("forbidden since %s, and then since %s", since, got.Since)
		}
		refuse()
		pass(2 * time.Minute)
		if got := s.expectState(t, vpc, Managed(), Synced, ""); !got.Since.After(since) {
			t.Errorf("in sync since %s, when it was forbidden", got.Since)
		}
		s.expect(t, "the role arrived", "i: KindState Vpc ")
	})
}

func TestObjectsOfADeletedKindAreGoneUntilItReturns(t *testing.T) {
	first := newScript(made(vpc, "a/x", 1), made(vpc, "a/y", 2))
	withScriptedHub(t, scripts{vpc: first}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(vpc, "a", "x"))
		before := s.expectState(t, vpc, Managed(), Synced, "")
		s.recorder.take()

		s.install(vpc, nil)
		s.KindChanged(vpc.GroupKind(), KindDeleted)
		s.expect(t, "the kind is deleted", "i: Deleted Vpc a/x", "i: KindState Vpc ")
		s.expectState(t, vpc, Managed(), Unavailable, WaitingForKind)
		if _, ok := s.Get(vpc, "a", "x"); ok {
			t.Error("an object outlived its kind")
		}

		s.install(vpc, newScript(made(vpc, "a/x", 9)))
		s.KindChanged(vpc.GroupKind(), KindAdded)
		after := s.expectState(t, vpc, Managed(), Synced, "")
		s.expect(t, "the kind is back", "i: KindState Vpc ")
		if after.Generation <= before.Generation {
			t.Errorf("generation is %d after %d", after.Generation, before.Generation)
		}
		s.script(vpc).put(made(vpc, "a/x", 0))
		s.expect(t, "its objects are watched again", "i: Updated Vpc a/x")
	})
}

func TestAnUpdatedKindIsListedAgain(t *testing.T) {
	sc := newScript(made(vpc, "a/x", 1))
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(vpc, "a", "x"))
		before := s.expectState(t, vpc, Managed(), Synced, "")
		s.recorder.take()
		changed := made(vpc, "a/x", 1)
		changed.Object["spec"] = map[string]any{"defaulted": true}
		sc.objects[objectName{"a", "x"}] = changed // the same revision reads differently
		s.KindChanged(vpc.GroupKind(), KindUpdated)
		s.expect(t, "subscribers are notified", "i: KindState Vpc ", "i: Updated Vpc a/x")
		got, _ := s.Get(vpc, "a", "x")
		if got.Object["spec"] == nil {
			t.Error("the object is read as it was under the old schema")
		}
		if after := s.expectState(t, vpc, Managed(), Synced, ""); after.Generation == before.Generation {
			t.Error("what was read before and after is of one generation")
		}
	})
}

func TestKindWatchReportsEveryObject(t *testing.T) {
	sc := newScript(made(vpc, "a/x", 1), made(vpc, "a/y", 2))
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		var one, two recorder
		report := func(in *recorder) func(object.Key, Cause) {
			return func(k object.Key, c Cause) { in.enqueue(Subscriber{k}, c) }
		}
		first := s.WatchKind(vpc, report(&one))
		synctest.Wait()
		all := []string{": KindState Vpc ", "x: Added Vpc a/x", "y: Added Vpc a/y"}
		if diff := cmp.Diff(all, one.take()); diff != "" {
			t.Error(diff)
		}
		second := s.WatchKind(vpc, report(&two))
		if diff := cmp.Diff([]string{"x: Resync Vpc a/x", "y: Resync Vpc a/y"}, two.take()); diff != "" {
			t.Error("a later KindWatch does not report the existing objects", diff)
		}
		first.Stop()
		first.Stop() // a late stop doesn't hit the successor
		pass(time.Hour)
		sc.put(made(vpc, "a/x", 0))
		synctest.Wait()
		if diff := cmp.Diff([]string{"x: Updated Vpc a/x"}, two.take()); diff != "" {
			t.Error(diff)
		}
		if got := one.take(); got != nil {
			t.Errorf("a stopped KindWatch reported %v", got)
		}
		if second.State().Phase != Synced || sc.lists != 1 {
			t.Errorf("state %v after %d lists", second.State(), sc.lists)
		}
		second.Stop()
		pass(time.Minute)
		s.expectState(t, vpc, All(), Unwatched, "")
	})
}

func TestAWholeKindActorServesItsSelections(t *testing.T) {
	sc := newScript(made(vpc, "a/x", 1, partOf, "o"))
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		s.commit("early", Child(vpc, "a", "x"))
		synctest.Wait()
		kindWatch := s.WatchKind(vpc, func(object.Key, Cause) {})
		synctest.Wait()
		s.commit("early", Child(vpc, "a", "x")) // its next pass
		s.commit("late", Child(vpc, "a", "x"), Object(vpc, "a", "x"))
		pass(time.Minute)
		if got := s.Stats(); len(got) != 1 || got[0].Class != "all" || got[0].Subscribers != 3 {
			t.Errorf("the kind is watched as %+v", got)
		}
		s.recorder.take()

		kindWatch.Stop()
		s.expect(t, "narrower interests are notified to acquire actors of their own", "early: KindState Vpc ", "late: KindState Vpc ")
		sc.put(made(vpc, "a/x", 0, partOf, "o"))
		s.expect(t, "nothing is missed in the meantime", "early: Updated Vpc a/x", "late: Updated Vpc a/x")
		s.commit("early", Child(vpc, "a", "x"))
		s.commit("late", Child(vpc, "a", "x"))
		pass(time.Minute)
		if got := s.Stats(); len(got) != 1 || got[0].Class != "managed" {
			t.Errorf("the kind is watched as %+v", got)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	hanging := newScript()
	hanging.hang = true
	synctest.Test(t, func(t *testing.T) {
		s := newScriptedHub(scripts{vpc: hanging, configMap: newScript()})
		s.commit("i", Child(vpc, "a", "x"), Child(configMap, "a", "x")) // before Run
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		s.expectState(t, vpc, Managed(), Syncing, "")
		s.expectState(t, configMap, Managed(), Synced, "")
		s.Forget(subscriberOf("i"))
		before := time.Now()
		cancel()
		<-ended
		if took := time.Since(before); took != 0 {
			t.Errorf("Run took %s to end", took)
		}
		s.commit("i", Child(configMap, "a", "y")) // no effect, no panic
	})
}
