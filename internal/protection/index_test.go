package protection

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

func TestSubscribersAreEnqueuedWhenUsagesChange(t *testing.T) {
	other := object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "other"}
	cases := map[string]struct {
		reason string
		change func(*world)
		want   []object.Key
	}{
		"A usage of the object is created": {
			reason: "the object is in use from now on",
			change: func(w *world) { w.Add(fakekube.Parse(usageForReason)) },
			want:   []object.Key{subscriberKey},
		},
		"A usage of another object is created": {
			reason: "the subscriber does not track that object",
			change: func(w *world) {
				o := fakekube.Parse(usageForReason)
				_ = unstructured.SetNestedField(o.Object, "elsewhere", "spec", "of", "resourceRef", "name")
				w.Add(o)
			},
		},
		"The state of the watch changes": {
			reason: "whether usages can be read is part of the result",
			change: func(w *world) { w.Notify(usageKind, "", "") },
			want:   []object.Key{subscriberKey},
		},
		"The subscriber tracks another object": {
			reason: "a subscription replaces the earlier one",
			change: func(w *world) {
				w.r.Index.Subscribe(subscriberKey, []object.Key{other})
				w.Add(fakekube.Parse(usageForReason))
			},
		},
		"The subscriber is forgotten": {
			reason: "its subscription has ended",
			change: func(w *world) {
				w.r.Index.Forget(subscriberKey)
				w.Add(fakekube.Parse(usageForReason))
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, used)
			if uses, unreadable := w.r.Index.Subscribe(subscriberKey, []object.Key{usedKey}); len(uses) > 0 || unreadable != nil {
				t.Fatalf("before: %v, %v", uses, unreadable)
			}
			tc.change(w)
			w.refreshIndex()
			if diff := cmp.Diff(tc.want, w.enqueued); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestSubscribeReturnsTheUsagesOfEachObject(t *testing.T) {
	w := newWorld(t, used, user, usageByUser)
	uses, unreadable := w.r.Index.Subscribe(subscriberKey, []object.Key{usedKey, userKey})
	if unreadable != nil || len(uses) != 1 || len(uses[usedKey]) != 1 || uses[usedKey][0].Key != usageKey {
		t.Errorf("got %+v, %v", uses, unreadable)
	}
	w.Remove(usageKey)
	w.Notify(usageKind, usageKey.Namespace, usageKey.Name)
	if uses, _ := w.r.Index.UsesOf(usedKey); len(uses) > 0 {
		t.Errorf("the usage is deleted, and the index still has %+v", uses)
	}
}

func TestTheRelationOfObjectsIsForgottenWithTheirUsage(t *testing.T) {
	w := newWorld(t, used, user, usageByUser)
	relation := func() usage.Relation {
		uses, _ := w.r.Index.UsesOf(usedKey)
		return uses[0].Relation
	}
	use, _ := usage.Read(w.Object(usageKey))
	w.r.Index.Subscribe(subscriberKey, []object.Key{usedKey})
	w.r.Index.SetRelation(use, usage.UserIsDescendant)
	w.r.Index.SetRelation(use, usage.UserIsDescendant) // an unchanged relation enqueues nothing
	if diff := cmp.Diff([]object.Key{subscriberKey}, w.enqueued); diff != "" || relation() != usage.UserIsDescendant {
		t.Errorf("the relation is %q; enqueued (-want +got):\n%s", relation(), diff)
	}
	w.r.Index.SetRelation(use, usage.Unrelated)
	if relation() != usage.Unrelated {
		t.Errorf("the relation is %q", relation())
	}
	w.r.Index.SetRelation(use, usage.UserIsDescendant)
	w.Change(usageKey, func(o *unstructured.Unstructured) { o.SetUID("usage-2") })
	w.refreshIndex()
	if relation() != usage.Unrelated {
		t.Errorf("the recreated usage has the relation %q of the former incarnation", relation())
	}
}

func TestOneOfTwoUsagesReleasedTogetherIsTheLast(t *testing.T) {
	second := fakekube.Parse(usageForReason)
	second.SetName("v")
	second.SetUID("usage-2")
	w := newWorld(t, used, usageForReason)
	w.Add(second)
	w.refreshIndex()
	first, _ := usage.Read(w.Object(usageKey))
	other, _ := usage.Read(second)
	if w.r.Index.SetReleased(first, usedKey) {
		t.Error("the first is reported as the last, while the second is not released")
	}
	if !w.r.Index.SetReleased(other, usedKey) {
		t.Error("the second is not reported as the last, though the first is released")
	}
}

func TestUsagesAreUnreadableUntilEachKindIsSynced(t *testing.T) {
	cases := map[string]struct {
		kind fakekube.Kind
		want *plan.Problem
	}{
		"no such kind": {fakekube.Kind{}, nil},
		"synced":       {fakekube.Kind{CRD: &apiextensionsv1.CustomResourceDefinition{}}, nil},
		"being read": {
			fakekube.Kind{CRD: &apiextensionsv1.CustomResourceDefinition{}, State: watch.State{Phase: watch.Syncing}},
			&plan.Problem{Reason: plan.Syncing, Message: "reading Usage objects"},
		},
		"forbidden": {
			fakekube.Kind{CRD: &apiextensionsv1.CustomResourceDefinition{}, State: watch.State{Phase: watch.Unavailable, Reason: watch.Forbidden, Message: "cannot list usages"}},
			&plan.Problem{Reason: plan.Forbidden, Message: "cannot list usages"},
		},
		"failing": {
			fakekube.Kind{CRD: &apiextensionsv1.CustomResourceDefinition{}, State: watch.State{Phase: watch.Unavailable, Reason: watch.Degraded, Message: "conversion fails"}},
			&plan.Problem{Reason: plan.Unavailable, Message: "conversion fails"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Kinds[usageKind.GroupKind()] = tc.kind
			_, unreadable := w.r.Index.UsesOf(usedKey)
			switch {
			case tc.want == nil && unreadable != nil, tc.want != nil && (unreadable == nil || unreadable.Problem != *tc.want):
				t.Errorf("got %+v", unreadable)
			}
		})
	}
	w := newWorld(t)
	w.Kinds[usage.Kinds[1].GroupKind()] = fakekube.Kind{CRD: &apiextensionsv1.CustomResourceDefinition{}}
	if _, unreadable := w.r.Index.UsesOf(usedKey); unreadable == nil || unreadable.Reason != plan.Syncing {
		t.Errorf("a kind that is not watched yet is not reported as syncing: %+v", unreadable)
	}
}
