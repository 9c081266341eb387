package watch

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// forbidIn forbids what the API server forbids to an account without a role in a namespace, or in
// all if that is empty.
func forbidIn(namespace string) func(verb string) error {
	return func(verb string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", fmt.Errorf("cannot %s them in the namespace %q", verb, namespace))
	}
}

// byNamespace has each namespace be a script of its own; the empty one stands for all.
func (s *scriptedHub) byNamespace(scripts map[string]*script) {
	s.env.open = func(_ Resource, selection Selection) source { return scripts[selection.namespace] }
}

func texts(objects []*unstructured.Unstructured) (out []string) {
	for _, o := range objects {
		out = append(out, o.GetNamespace()+"/"+o.GetName())
	}
	return out
}

func TestChildrenInNamespacesAreCompleteTogether(t *testing.T) {
	type namespaces map[string]string // how each is: "", "hangs", "forbidden", "fails"
	cases := map[string]struct {
		reason  string
		are     namespaces
		want    []string
		phase   Phase
		why     Reason
		message []string
	}{
		"AllAreRead": {
			reason: "objects come sorted, from each namespace",
			are:    namespaces{"a": "", "b": ""}, want: []string{"a/x", "b/x"}, phase: Synced,
		},
		"None": {
			reason: "in no namespace there is no object",
			are:    namespaces{}, phase: Synced,
		},
		"OneIsBeingListed": {
			reason: "an object in b may exist",
			are:    namespaces{"a": "", "b": "hangs"}, want: []string{"a/x"}, phase: Syncing,
		},
		"OneIsForbidden": {
			reason: "what is readable is returned, and the state names the namespace",
			are:    namespaces{"a": "", "b": "forbidden"}, want: []string{"a/x"}, phase: Unavailable, why: Forbidden,
			message: []string{`in the namespace "b"`},
		},
		"SeveralAreForbidden": {
			reason: "each is named",
			are:    namespaces{"a": "forbidden", "b": "forbidden", "c": ""}, want: []string{"c/x"}, phase: Unavailable, why: Forbidden,
			message: []string{`in the namespace "a"`, `in the namespace "b"`},
		},
		"ForbiddenBeforeOthers": {
			reason: "it does not end by itself",
			are:    namespaces{"a": "fails", "b": "forbidden", "c": "hangs"}, phase: Unavailable, why: Forbidden,
			message: []string{`in the namespace "b"`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scripts := map[string]*script{}
			var in []string
			for _, namespace := range []string{"a", "b", "c"} {
				how, wanted := tc.are[namespace]
				if !wanted {
					continue
				}
				in = append(in, namespace)
				sc := newScript(made(configMap, namespace+"/x", 1, partOf, "o"), made(configMap, namespace+"/y", 2, partOf, "p"))
				switch sc.hang = how == "hangs"; how {
				case "forbidden":
					sc.fail(forbidIn(namespace))
				case "fails":
					sc.fail(func(string) error { return apierrors.NewInternalError(fmt.Errorf("broken")) })
				}
				scripts[namespace] = sc
			}
			withScriptedHub(t, map[schema.GroupVersionKind]*script{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
				s.byNamespace(scripts)
				l := s.BeginWithinQuota(subscriberOf("i"))
				l.ChildrenIn(configMap, in, "o")
				synctest.Wait()
				got, state := l.ChildrenIn(configMap, in, "o")
				l.Commit()
				if diff := cmp.Diff(tc.want, texts(got)); diff != "" {
					t.Errorf("%s: objects (-want +got):\n%s", tc.reason, diff)
				}
				if state.Phase != tc.phase || state.Reason != tc.why {
					t.Errorf("%s: state %+v, want %s %s", tc.reason, state, tc.phase, tc.why)
				}
				for _, want := range tc.message {
					if !strings.Contains(state.Message, want) {
						t.Errorf("%s: the message lacks %q: %s", tc.reason, want, state.Message)
					}
				}
			})
		})
	}
}

func TestChildrenOfANamespaceAreRouted(t *testing.T) {
	a, b := newScript(), newScript()
	withScriptedHub(t, scripts{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
		s.byNamespace(map[string]*script{"a": a, "b": b})
		s.commit("i", ChildrenIn(configMap, "a", "o"))
		s.commit("j", ChildrenIn(configMap, "b", "p"))
		synctest.Wait()
		s.recorder.take()
		a.put(made(configMap, "a/x", 0, partOf, "o"))
		s.expect(t, "its owner", "i: Added ConfigMap a/x")
		b.put(made(configMap, "b/x", 0, partOf, "p"))
		s.expect(t, "the other's", "j: Added ConfigMap b/x")
		b.fail(forbidIn("b"))
		pass(10 * time.Minute)
		s.expect(t, "only who watches there, when watches are forbidden and then lists", "j: KindState ConfigMap ", "j: KindState ConfigMap ")
	})
}

func TestAWatchOfAllManagedObjectsServesThoseOfANamespace(t *testing.T) {
	all, a := newScript(made(configMap, "a/x", 1, partOf, "o"), made(configMap, "b/x", 2, partOf, "o")), newScript(made(configMap, "a/x", 1, partOf, "o"))
	withScriptedHub(t, scripts{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
		s.byNamespace(map[string]*script{"": all, "a": a})
		s.commit("wide", ChildrenOf(configMap, "q"))
		s.commit("narrow", ChildrenIn(configMap, "a", "o"))
		if diff := cmp.Diff([]string{"managed"}, s.selections()); diff != "" {
			t.Errorf("while it is watched anyway (-want +got):\n%s", diff)
		}
		read := func(reason string) {
			t.Helper()
			l := s.Begin(subscriberOf("narrow"))
			defer l.Discard()
			if got, state := l.ChildrenIn(configMap, []string{"a"}, "o"); state.Phase != Synced || len(got) != 1 {
				t.Errorf("%s: %q, %v", reason, texts(got), state)
			}
		}
		read("objects of other namespaces are left out")
		s.recorder.take()
		s.Forget(subscriberOf("wide"))
		s.expect(t, "nobody else watches it", "narrow: KindState ConfigMap ")
		s.commit("narrow", ChildrenIn(configMap, "a", "o"))
		pass(time.Minute)
		if diff := cmp.Diff([]string{"managed a"}, s.selections()); diff != "" {
			t.Errorf("on its own (-want +got):\n%s", diff)
		}
		read("on its own")
	})
}

func TestAForbiddenWatchOfAllManagedObjectsServesNoNamespace(t *testing.T) {
	all, a := newScript(), newScript(made(configMap, "a/x", 1, partOf, "o"))
	all.fail(forbidIn(""))
	withScriptedHub(t, scripts{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
		s.byNamespace(map[string]*script{"": all, "a": a})
		s.commit("wide", ChildrenOf(configMap, "q"))
		s.commit("narrow", ChildrenIn(configMap, "a", "o"))
		synctest.Wait()
		s.commit("narrow", ChildrenIn(configMap, "a", "o")) // as the event has it do
		synctest.Wait()
		l := s.Begin(subscriberOf("narrow"))
		defer l.Discard()
		if got, state := l.ChildrenIn(configMap, []string{"a"}, "o"); state.Phase != Synced || len(got) != 1 {
			t.Errorf("%q, %v", texts(got), state)
		}
	})
}

func TestWritesAreRecordedForTheirNamespace(t *testing.T) {
	a, b := newScript(), newScript()
	withScriptedHub(t, scripts{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
		s.byNamespace(map[string]*script{"a": a, "b": b})
		l := s.Begin(subscriberOf("i"))
		defer l.Discard()
		in := []string{"a", "b"}
		l.ChildrenIn(configMap, in, "o")
		synctest.Wait()
		s.Record(made(configMap, "a/x", 1000, partOf, "o"), subscriberOf("i"))
		if got, state := l.ChildrenIn(configMap, in, "o"); state.Phase != Synced || len(got) != 1 {
			t.Errorf("after the answer: %q, %v", texts(got), state)
		}
		s.RecordGone(configMap, "a", "x", "uid of a/x", subscriberOf("i"))
		if got, _ := l.ChildrenIn(configMap, in, "o"); len(got) != 0 {
			t.Errorf("after the deletion: %q", texts(got))
		}
	})
}

// TestNamespacesOfChildrenCount: an instance can name any number of namespaces. Its own exists.
func TestNamespacesOfChildrenCount(t *testing.T) {
	withScriptedHub(t, scripts{configMap: newScript()}, func(t *testing.T, s *scriptedHub) {
		s.env.Quota = NewQuota(Limits{PerSubscriber: 1, PerNamespace: 2})
		l := s.BeginWithinQuota(subscriberOf("i"))
		defer l.Discard()
		if _, state := l.ChildrenIn(configMap, []string{"a", "b", "default"}, "o"); state.Reason == LimitExceeded {
			t.Errorf("within the limit: %v", state)
		}
		got, state := l.ChildrenIn(configMap, []string{"a", "b", "c", "default"}, "o")
		if state.Reason != LimitExceeded || !strings.Contains(state.Message, PerNamespaceField) {
			t.Errorf("beyond it: %q, %+v", texts(got), state)
		}
	})
}
