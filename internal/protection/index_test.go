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

func TestWhoHasAskedIsEnqueuedWhenTheAnswerChanges(t *testing.T) {
	other := object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "other"}
	cases := map[string]struct {
		reason string
		change func(*world)
		want   []object.Key
	}{
		"A usage comes": {
			reason: "the object is in use from now on",
			change: func(w *world) { w.Add(fakekube.Parse(usageForReason)) },
			want:   []object.Key{askerKey},
		},
		"A usage of something else comes": {
			reason: "nobody has asked about that",
			change: func(w *world) {
				o := fakekube.Parse(usageForReason)
				_ = unstructured.SetNestedField(o.Object, "elsewhere", "spec", "of", "resourceRef", "name")
				w.Add(o)
			},
		},
		"The kind's watch changes": {
			reason: "whether usages are known is part of the answer",
			change: func(w *world) { w.Notify(usageKind, "", "") },
			want:   []object.Key{askerKey},
		},
		"The asker asks about something else": {
			reason: "an answer takes the place of the one before",
			change: func(w *world) {
				w.r.Index.Subscribe(askerKey, []object.Key{other})
				w.Add(fakekube.Parse(usageForReason))
			},
		},
		"The asker is forgotten": {
			reason: "it has gone",
			change: func(w *world) {
				w.r.Index.Forget(askerKey)
				w.Add(fakekube.Parse(usageForReason))
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, used)
			if uses, blind := w.r.Index.Subscribe(askerKey, []object.Key{usedKey}); len(uses) > 0 || blind != nil {
				t.Fatalf("before: %v, %v", uses, blind)
			}
			tc.change(w)
			w.hear()
			if diff := cmp.Diff(tc.want, w.enqueued); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAskReturnsTheUsagesOfEachObject(t *testing.T) {
	w := newWorld(t, used, user, usageByUser)
	uses, blind := w.r.Index.Subscribe(askerKey, []object.Key{usedKey, userKey})
	if blind != nil || len(uses) != 1 || len(uses[usedKey]) != 1 || uses[usedKey][0].Key != usageKey {
		t.Errorf("got %+v, %v", uses, blind)
	}
	w.Remove(usageKey)
	w.Notify(usageKind, usageKey.Namespace, usageKey.Name)
	if uses, _ := w.r.Index.UsesOf(usedKey); len(uses) > 0 {
		t.Errorf("the usage has gone, and %+v is left", uses)
	}
}

func TestKinshipIsForgottenWithItsUsage(t *testing.T) {
	w := newWorld(t, used, user, usageByUser)
	kin := func() usage.Relation {
		uses, _ := w.r.Index.UsesOf(usedKey)
		return uses[0].Relation
	}
	use, _ := usage.Read(w.Object(usageKey))
	w.r.Index.Subscribe(askerKey, []object.Key{usedKey})
	w.r.Index.SetKin(use, usage.UserIsDescendant)
	w.r.Index.SetKin(use, usage.UserIsDescendant) // which is nothing new
	if diff := cmp.Diff([]object.Key{askerKey}, w.enqueued); diff != "" || kin() != usage.UserIsDescendant {
		t.Errorf("kin is %q, enqueued (-want +got):\n%s", kin(), diff)
	}
	w.r.Index.SetKin(use, usage.Unrelated)
	if kin() != usage.Unrelated {
		t.Errorf("kin is %q", kin())
	}
	w.r.Index.SetKin(use, usage.UserIsDescendant)
	w.Change(usageKey, func(o *unstructured.Unstructured) { o.SetUID("usage-2") })
	w.hear()
	if kin() != usage.Unrelated {
		t.Errorf("another incarnation has the kin %q of the one before", kin())
	}
}

func TestOfTwoUsagesThatLeaveOneIsTheLast(t *testing.T) {
	second := fakekube.Parse(usageForReason)
	second.SetName("v")
	second.SetUID("usage-2")
	w := newWorld(t, used, usageForReason)
	w.Add(second)
	w.hear()
	first, _ := usage.Read(w.Object(usageKey))
	other, _ := usage.Read(second)
	if w.r.Index.SetLeaving(first, usedKey) {
		t.Error("the first is the last, while the second stays")
	}
	if !w.r.Index.SetLeaving(other, usedKey) {
		t.Error("the second is not the last, though the first leaves")
	}
}

func TestUsagesAreUnknownUntilEachKindIsRead(t *testing.T) {
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
			_, blind := w.r.Index.UsesOf(usedKey)
			switch {
			case tc.want == nil && blind != nil, tc.want != nil && (blind == nil || blind.Problem != *tc.want):
				t.Errorf("got %+v", blind)
			}
		})
	}
	w := newWorld(t)
	w.Kinds[usage.Kinds[1].GroupKind()] = fakekube.Kind{CRD: &apiextensionsv1.CustomResourceDefinition{}}
	if _, blind := w.r.Index.UsesOf(usedKey); blind == nil || blind.Reason != plan.Syncing {
		t.Errorf("of a kind that isn't watched yet: %+v", blind)
	}
}
