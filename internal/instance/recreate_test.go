package instance

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

// immutable is a fixture whose ConfigMap a is wanted otherwise, which the API server rejects.
func immutable(t *testing.T, recreate plan.Recreation) *fixture {
	node := configMap("a")
	node.Recreate = recreate
	f := newReconciled(t, node)
	f.nodes.wanted[0].Object.Object["data"] = map[string]any{"a": "c"}
	f.fail["update ConfigMap a"] = invalid("data is immutable")
	return f
}

func TestAnObjectWhoseUpdateIsRejectedIsRecreatedIfAllowed(t *testing.T) {
	f := immutable(t, plan.Recreation{Allowed: true})
	f.change(keyOf("a"), func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"other/keeps"}) })
	f.reconcile()
	f.wantCalls("update ConfigMap a", "try to create ConfigMap a", "delete in the foreground ConfigMap a", "status Web shop")
	f.wantEvent("Warning Recreating: a: ConfigMap prod/a is deleted and recreated, because its update was rejected: data is immutable")
	f.wantCondition(v1alpha1.InstanceResourcesReady, "ResourceDeleting")
	f.reconcile() // it is on its way
	for _, call := range f.calls {
		if strings.HasPrefix(call, "update") || strings.HasPrefix(call, "delete") {
			t.Errorf("request: %s", call)
		}
	}
	delete(f.objects, keyOf("a"))
	f.reconcile()
	f.wantCalls("create ConfigMap a", "status Web shop")
	f.wantCondition(v1alpha1.InstanceReady, "True")
}

func TestObjectsThatAreNotRecreated(t *testing.T) {
	held := map[object.Key][]usage.Usage{keyOf("a"): {{Key: object.Key{Kind: "Usage", Name: "u"}, UID: "u", Reason: "the shop is open"}}}
	cases := map[string]struct {
		recreate plan.Recreation
		given    func(*fixture)
		calls    []string
		message  string
	}{
		"The node doesn't allow it": {
			plan.Recreation{}, func(*fixture) {},
			[]string{"update ConfigMap a", "status Web shop"}, "to delete and recreate it, annotate it",
		},
		"A new one would be refused as well": {
			plan.Recreation{Allowed: true}, func(f *fixture) { f.fail["try to create ConfigMap a"] = invalid("no such data") },
			[]string{"update ConfigMap a", "try to create ConfigMap a", "status Web shop"}, "a new one would be refused as well: no such data",
		},
		"Whether a new one would be refused is unknown": {
			plan.Recreation{Allowed: true}, func(f *fixture) { f.fail["try to create ConfigMap a"] = apierrors.NewTooManyRequests("later", 1) },
			[]string{"update ConfigMap a", "try to create ConfigMap a", "status Web shop"}, "later",
		},
		"It is in use": {
			plan.Recreation{Allowed: true}, func(f *fixture) { f.uses = held },
			[]string{"update ConfigMap a", "try to create ConfigMap a", "status Web shop"}, "it is not recreated: in use: the shop is open",
		},
		"Its usages are unknown": {
			plan.Recreation{Allowed: true}, func(f *fixture) { f.unreadable = &plan.Unreadable{Problem: plan.Problem{Reason: plan.Syncing}} },
			[]string{"update ConfigMap a", "try to create ConfigMap a", "status Web shop"}, "it is recreated once its usages are read",
		},
		"Its deletion is refused": {
			plan.Recreation{Allowed: true}, func(f *fixture) { f.fail["delete in the foreground ConfigMap a"] = errors.New("no deletions today") },
			[]string{"update ConfigMap a", "try to create ConfigMap a", "delete in the foreground ConfigMap a", "status Web shop"},
			"it cannot be deleted to be recreated: DeniedByWebhook: no deletions today",
		},
		"It is protected": {
			plan.Recreation{Allowed: true}, func(f *fixture) {
				f.change(keyOf("a"), func(o *unstructured.Unstructured) {
					annotations := o.GetAnnotations()
					annotations[v1alpha1.ProtectAnnotation] = "precious"
					o.SetAnnotations(annotations)
				})
			},
			[]string{"update ConfigMap a", "try to create ConfigMap a", "status Web shop"}, "protected: precious",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := immutable(t, tc.recreate)
			tc.given(f)
			if out := f.reconcile(); out.Err == nil {
				t.Error("the rejection isn't a failure")
			}
			f.wantCalls(tc.calls...)
			if got := f.message(); !strings.Contains(got, "update rejected: ") || !strings.Contains(got, tc.message) {
				t.Errorf("got %q, want %q", got, tc.message)
			}
		})
	}
}

func TestAnAcceptedDeletionIsNotRequestedAgain(t *testing.T) {
	f := immutable(t, plan.Recreation{Allowed: true})
	a := f.objects[keyOf("a")]
	f.change(keyOf("a"), func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"other/keeps"}) })
	f.reconcile()
	f.objects[keyOf("a")] = a // the event of it is late
	f.reconcile()
	f.wantCalls("update ConfigMap a", "try to create ConfigMap a", "status Web shop")
	if got := f.message(); !strings.Contains(got, "its deletion was accepted and isn't observed yet") {
		t.Errorf("got %q", got)
	}
}
