package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// selections lists the hub's watches.
func (s *scriptedHub) selections() (out []string) {
	synctest.Wait()
	for _, one := range s.Stats() {
		out = append(out, one.Selection)
	}
	return out
}

func TestManySingleObjectsShareAWatch(t *testing.T) {
	maps := newScript()
	names, singles := make([]Target, 20), []string{}
	for i := range names {
		name := fmt.Sprintf("m%02d", i)
		maps.put(made(configMap, "a/"+name, i+1))
		names[i] = Object(configMap, "a", name)
		if i < maxSingles {
			singles = append(singles, "one a/"+name)
		}
	}
	withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", names...)
		if diff := cmp.Diff(append([]string{"namespace a"}, singles...), s.selections()); diff != "" {
			t.Errorf("the first lease (-want +got):\n%s", diff)
		}
		s.commit("i", names...)
		<-time.After(time.Minute)
		if diff := cmp.Diff([]string{"namespace a"}, s.selections()); diff != "" {
			t.Errorf("the next (-want +got):\n%s", diff)
		}
		s.recorder.take()
		maps.put(made(configMap, "a/m03", 0))
		maps.put(made(configMap, "a/other", 0))
		s.expect(t, "only what is wanted wakes", "i: Updated ConfigMap a/m03")

		l := s.Begin(subscriberOf("i"))
		for i, target := range names {
			if o, state := l.Object(configMap, "a", target.route.name); o == nil || state.Phase != Synced {
				t.Errorf("object %d is %v, %v", i, o, state)
			}
		}
		if o, state := l.Object(configMap, "a", "absent"); o != nil || state.Phase != Synced {
			t.Errorf("the absent object is %v, %v", o, state)
		}
		l.Commit()
		s.commit("j", Object(configMap, "b", "x"))
		if diff := cmp.Diff([]string{"namespace a", "one b/x"}, s.selections()); diff != "" {
			t.Errorf("another namespace (-want +got):\n%s", diff)
		}
		s.Forget(subscriberOf("i"))
		s.Forget(subscriberOf("j"))
		<-time.After(time.Minute)
		if left := s.selections(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// TestAnAccountThatMayWatchSingleObjectsOnly: a role with resourceNames allows no watch of the
// namespace.
func TestAnAccountThatMayWatchSingleObjectsOnly(t *testing.T) {
	maps, forbidden := newScript(made(configMap, "a/m00", 1)), newScript()
	forbidden.fail(func(string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil)
	})
	withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
		s.env.open = func(_ Resource, selection Selection) source {
			if selection == InNamespace("a") {
				return forbidden
			}
			return maps
		}
		names := make([]Target, 20)
		for i := range names {
			names[i] = Object(configMap, "a", fmt.Sprintf("m%02d", i))
		}
		s.commit("i", names...)
		synctest.Wait()
		if woken := s.recorder.take(); !slices.Contains(woken, "i: KindState ConfigMap ") {
			t.Errorf("woken: %q", woken)
		}
		s.commit("i", names...)
		<-time.After(time.Minute)
		if got := s.selections(); len(got) != len(names) || slices.Contains(got, "namespace a") {
			t.Errorf("watches: %q", got)
		}
		l := s.Begin(subscriberOf("i"))
		defer l.Discard()
		if o, state := l.Object(configMap, "a", "m00"); o == nil || state.Phase != Synced {
			t.Errorf("got %v, %v", o, state)
		}
	})
}

// TestAForbiddenNamespaceIsTriedAgain: a permission that is missing for a moment must not split a
// watch for good.
func TestAForbiddenNamespaceIsTriedAgain(t *testing.T) {
	secret, names := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, make([]Target, 20)
	for i := range names {
		names[i] = Object(configMap, "a", fmt.Sprintf("m%02d", i))
	}
	forbid := func(string) error { return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", nil) }
	cases := map[string]struct {
		passes func(roles *script)
		want   int
	}{
		"Not at once":                {func(*script) {}, len(names)},
		"When permissions change":    {func(roles *script) { roles.put(made(roleKind, "/x", 0)) }, 1},
		"After some time, otherwise": {func(*script) { pass(joinRetry) }, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			secrets, maps, joined, roles := newScript(), newScript(), newScript(), newScript()
			withScriptedHub(t, scripts{configMap: maps, secret: secrets, roleKind: roles}, func(t *testing.T, s *scriptedHub) {
				s.env.PermissionKinds = []schema.GroupVersionKind{roleKind}
				open := s.env.open
				s.env.open = func(r Resource, selection Selection) source {
					if selection == InNamespace("a") {
						return joined
					}
					return open(r, selection)
				}
				secrets.fail(forbid) // the roles are watched all the time
				s.commit("other", Object(secret, "a", "x"))
				joined.fail(forbid)
				for range 2 {
					s.commit("i", names...)
					pass(time.Minute)
				}
				if got := s.ofKind(configMap); len(got) != len(names) {
					t.Fatalf("before: %q", got)
				}
				joined.fail(nil)
				tc.passes(roles)
				synctest.Wait()
				s.commit("i", names...)
				pass(time.Minute)
				if got := s.ofKind(configMap); len(got) != tc.want {
					t.Errorf("after: %q", got)
				}
			})
		})
	}
}

// ofKind lists the watches of a kind.
func (s *scriptedHub) ofKind(gvk schema.GroupVersionKind) (out []string) {
	for _, one := range s.Stats() {
		if one.Kind == gvk {
			out = append(out, one.Selection)
		}
	}
	return out
}

// TestAnAdmittedTargetJoinsOthersBeyondTheLimit: others decide when a namespace has many singles.
func TestAnAdmittedTargetJoinsOthersBeyondTheLimit(t *testing.T) {
	maps, joined := newScript(), newScript()
	withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
		s.env.open = func(_ Resource, selection Selection) source {
			if selection == InNamespace("a") {
				return joined
			}
			return maps
		}
		s.env.Quota = NewQuota(Limits{PerNamespace: 2})
		x, y, more := Object(configMap, "a", "x"), Object(configMap, "a", "y"), Object(configMap, "b", "x")
		s.commit("i", x, y)
		others := s.Begin(subscriberOf("others"))
		for i := range maxSingles {
			others.Watch(Object(configMap, "a", fmt.Sprint(i)))
		}
		others.Commit()
		watch := func(targets ...Target) (refused []int) {
			l := s.BeginWithinQuota(subscriberOf("i"))
			defer l.Commit()
			for i, target := range targets {
				if l.Watch(target).Reason == LimitExceeded {
					refused = append(refused, i)
				}
			}
			return refused
		}
		if diff := cmp.Diff([]int{2}, watch(x, y, more)); diff != "" {
			t.Errorf("while the old watches are there, refused (-want +got):\n%s", diff)
		}
		if refused := watch(x, y, more); len(refused) > 0 {
			t.Errorf("once they have ended, refused %v", refused)
		}

		// The other way, each needs a watch of its own.
		joined.fail(func(string) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil)
		})
		pass(time.Minute)
		if diff := cmp.Diff([]int{0, 1}, watch(x, y, more)); diff != "" {
			t.Errorf("when they leave it, refused (-want +got):\n%s", diff)
		}
	})
}

func TestWatchesAreLimited(t *testing.T) {
	inA, inB := Object(configMap, "a", "x"), Object(configMap, "b", "x")
	app, _ := labels.Parse("app=db")
	selection := Matching(configMap, "c", app)
	cases := map[string]struct {
		limits  Limits
		others  []Target // of another subscriber
		theirs  string   // their namespace
		targets []Target
		refused []string
	}{
		"As many as are allowed":               {Limits{PerSubscriber: 3}, nil, "default", []Target{inA, inB, selection}, nil},
		"One more":                             {Limits{PerSubscriber: 2}, nil, "default", []Target{inA, inB, selection}, []string{"the instance reads more than 2 objects and selections that are not its own (watchLimits.perInstance)"}},
		"The namespace has as many":            {Limits{PerNamespace: 2}, []Target{inA, inB}, "default", []Target{selection}, []string{"the instances of the namespace cause more than 2 watches (watchLimits.perNamespace)"}},
		"The same objects":                     {Limits{PerNamespace: 2, Total: 2}, []Target{inA, inB}, "default", []Target{inA, inB}, nil},
		"Another namespace has":                {Limits{PerNamespace: 2}, []Target{inA, inB}, "other", []Target{selection}, nil},
		"The same objects, of another one":     {Limits{PerNamespace: 1}, []Target{inA}, "other", []Target{inA}, nil},
		"There are as many":                    {Limits{Total: 2}, []Target{inA, inB}, "other", []Target{selection}, []string{"there are 2 watches already (watchLimits.total)"}},
		"Own children, and objects of a kind":  {Limits{PerSubscriber: 1, PerNamespace: 1, Total: 1}, nil, "default", []Target{ChildrenOf(configMap, "o"), Child(configMap, "a", "y"), inA}, nil},
		"Nothing is allowed to read any other": {Limits{PerSubscriber: 1}, nil, "default", []Target{inA, inB, selection}, []string{"the instance reads more than 1 objects and selections that are not its own (watchLimits.perInstance)", "the instance reads more than 1 objects and selections that are not its own (watchLimits.perInstance)"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			withScriptedHub(t, scripts{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
				s.env.Quota = NewQuota(tc.limits)
				theirs := s.BeginWithinQuota(Subscriber{object.Key{Group: "kro.run", Kind: "Vpc", Namespace: tc.theirs, Name: "other"}})
				for _, target := range tc.others {
					theirs.Watch(target)
				}
				theirs.Commit()
				var refused []string
				l := s.BeginWithinQuota(subscriberOf("i"))
				for _, target := range tc.targets {
					if state := l.Watch(target); state.Reason == LimitExceeded {
						refused = append(refused, state.Message)
					}
				}
				l.Commit()
				if diff := cmp.Diff(tc.refused, refused); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		})
	}
}

// TestControllersDoNotShareTheQuotaOfInstances: neither do their reads fill it, nor are they refused.
func TestControllersDoNotShareTheQuotaOfInstances(t *testing.T) {
	withScriptedHub(t, scripts{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
		s.env.Quota = NewQuota(Limits{PerSubscriber: 2, PerNamespace: 1, Total: 2})
		shared, watches := Object(configMap, "a", "x"), func() int { return len(s.env.Quota.watches) }
		controller := s.Begin(subscriberOf("controller"))
		for _, name := range []string{"x", "y", "z"} {
			if state := controller.Watch(Object(configMap, "a", name)); state.Reason == LimitExceeded {
				t.Errorf("%s is refused: %s", name, state.Message)
			}
		}
		controller.Commit()
		if got := watches(); got != 0 {
			t.Errorf("%d watches of a controller count", got)
		}
		s.commit("i", shared)
		if got := watches(); got != 1 {
			t.Errorf("%d watches of an instance count", got)
		}
		s.Forget(subscriberOf("i"))
		if got := watches(); got != 0 {
			t.Errorf("%d watches count that serve a controller alone", got)
		}
		s.commit("i", Object(configMap, "b", "x"))
		s.Forget(subscriberOf("i"))
		if got := watches(); got != 1 {
			t.Errorf("%d watches count in their grace period", got)
		}
		controller = s.Begin(subscriberOf("controller"))
		controller.Watch(Object(configMap, "b", "x"))
		controller.Commit()
		if got := watches(); got != 0 {
			t.Errorf("%d watches count that a controller took over", got)
		}
	})
}

// TestOwnObjectsAreNotReadsOfOthers: an instance that is taken over may consist of more objects than
// it may read of others.
func TestOwnObjectsAreNotReadsOfOthers(t *testing.T) {
	withScriptedHub(t, scripts{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
		s.env.Quota = NewQuota(Limits{PerSubscriber: 1, PerNamespace: 4})
		l := s.BeginWithinQuota(subscriberOf("i"))
		defer l.Discard()
		var refused []string
		for _, namespace := range []string{"own-1", "own-2", "other-1", "other-2", "own-3", "own-4"} {
			read := l.Object
			if strings.HasPrefix(namespace, "own") {
				read = l.OwnObject
			}
			if _, state := read(configMap, namespace, "x"); state.Reason == LimitExceeded {
				refused = append(refused, namespace)
			}
		}
		if diff := cmp.Diff([]string{"other-2", "own-4"}, refused); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
	})
}

func TestARefusedSubscriberIsWokenWhenAWatchEnds(t *testing.T) {
	withScriptedHub(t, scripts{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
		s.env.Quota = NewQuota(Limits{PerNamespace: 1})
		s.commit("i", Object(configMap, "a", "x"))
		s.commit("j", Object(configMap, "b", "x"))
		synctest.Wait()
		s.recorder.take()
		s.Forget(subscriberOf("i"))
		pass(wakeInterval)
		s.expect(t, "the namespace has one watch less", "j: Resync Vpc default/j")
		s.commit("j", Object(configMap, "b", "x"))
		if got := len(s.env.Quota.watches); got != 2 { // the other one is in its grace period
			t.Errorf("%d watches", got)
		}
		s.Forget(subscriberOf("j"))
		pass(time.Minute)
		if q := s.env.Quota; len(q.watches) != 0 || len(q.namespaces) != 0 || len(q.refused) != 0 {
			t.Errorf("left: %d watches, %v, %v", len(q.watches), q.namespaces, q.refused)
		}
	})
}

// TestRefusedSubscribersAreWokenTogether: each tries again, and is refused again if there is no watch for it.
func TestRefusedSubscribersAreWokenTogether(t *testing.T) {
	for name, limits := range map[string]Limits{"Of the namespace": {PerNamespace: 2}, "Of all": {Total: 2}} {
		t.Run(name, func(t *testing.T) {
			withScriptedHub(t, scripts{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
				s.env.Quota = NewQuota(limits)
				read := func(name string) { s.commit(name, Object(configMap, name, "x")) }
				s.env.Grace = time.Millisecond
				for _, name := range []string{"i", "j", "w3", "w1", "w0"} {
					read(name)
				}
				pass(time.Minute)
				s.recorder.take()
				s.Forget(subscriberOf("w0"))
				s.Forget(subscriberOf("i"))
				pass(wakeInterval + time.Second/2)
				s.expect(t, "one watch ended", "w1: Resync Vpc default/w1", "w3: Resync Vpc default/w3")
				read("w3")
				read("w1")
				synctest.Wait()
				s.recorder.take()
				pass(time.Minute)
				s.expect(t, "w3 took the watch")

				s.Forget(subscriberOf("j"))
				pass(wakeInterval + time.Second/2)
				s.expect(t, "another ended", "w1: Resync Vpc default/w1")
				pass(time.Minute)
				s.expect(t, "nobody waits any more")
			})
		})
	}
}

// TestARefusedSubscriberWaitsOnce: also one that has no other target, and not for ever.
func TestARefusedSubscriberWaitsOnce(t *testing.T) {
	quota := NewQuota(Limits{Total: 1})
	waiting := func() int { return len(quota.refused) }
	withScriptedHub(t, scripts{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
		s.env.Quota = quota
		refused := Object(configMap, "b", "x")
		s.commit("i", Object(configMap, "a", "x"))
		for range 3 {
			s.commit("j", refused)
		}
		if got := waiting(); got != 1 {
			t.Errorf("%d are waiting", got)
		}
		for reason, ends := range map[string]func(){
			"it is forgotten":          func() { s.Forget(subscriberOf("j")) },
			"its kind is forgotten":    func() { s.ForgetKind(vpc.GroupKind()); s.commit("i", Object(configMap, "a", "x")) },
			"it needs nothing refused": func() { s.commit("j", Object(configMap, "a", "x")) },
		} {
			s.commit("j", refused)
			if ends(); waiting() != 0 {
				t.Errorf("%s, and is waiting", reason)
			}
		}
		s.commit("j", refused)
	})
	if got := waiting(); got != 0 {
		t.Errorf("its hub has stopped, and %d are waiting", got)
	}
}

// TestAHubThatStopsReturnsItsWatches: the hub of an account ends before the others.
func TestAHubThatStopsReturnsItsWatches(t *testing.T) {
	quota := NewQuota(Limits{Total: 1})
	withScriptedHub(t, scripts{configMap: newScript()}, func(_ *testing.T, s *scriptedHub) {
		s.env.Quota = quota
		s.commit("i", Object(configMap, "a", "x"))
	})
	if len(quota.watches) != 0 || len(quota.namespaces) != 0 {
		t.Errorf("left: %d watches, %v", len(quota.watches), quota.namespaces)
	}
}
