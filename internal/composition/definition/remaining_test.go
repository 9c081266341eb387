package definition

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/serving"
)

func made(namespace, name string, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "App"}}
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetUID(types.UID(namespace + "/" + name))
	for _, f := range change {
		f(o)
	}
	return o
}

func going(finalizers ...string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		at := metav1.NewTime(time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC))
		o.SetDeletionTimestamp(&at)
		o.SetFinalizers(finalizers)
	}
}

func blockedBy(blocker map[string]any) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.Object["status"] = map[string]any{"deletion": map[string]any{"startedAt": "2026-08-01T00:00:00Z", "blockers": []any{blocker}}}
	}
}

func hold(kind, name, message string) map[string]any {
	return map[string]any{
		"object": map[string]any{"apiVersion": "v1", "kind": kind, "namespace": "prod", "name": name},
		"reason": "Finalizer", "message": message, "since": "2026-08-01T00:00:00Z",
	}
}

func TestRemainingText(t *testing.T) {
	nested := hold("Nest", "a", "see there")
	nested["cause"] = hold("Bucket", "logs", "it isn't empty")
	synced := watch.State{Phase: watch.Synced}
	cases := map[string]struct {
		left serving.Remaining
		want string
	}{
		"One": {serving.Remaining{Kind: "App", State: synced, Objects: []*unstructured.Unstructured{made("prod", "a")}}, "1 of kind App remains: prod/a"},
		"One that is in no namespace": {
			serving.Remaining{Kind: "App", State: synced, Objects: []*unstructured.Unstructured{made("", "a", going("composite.apiextensions.crossplane.io"))}}, "1 of kind App remains: a",
		},
		"Many, of which the first have names": {
			serving.Remaining{Kind: "App", State: synced, Objects: []*unstructured.Unstructured{made("a", "1"), made("a", "2"), made("b", "1"), made("b", "2"), made("b", "3"), made("b", "4"), made("b", "5")}},
			"7 of kind App remain: a/1, a/2, b/1, b/2, b/3 and 2 more",
		},
		"Somebody's finalizer keeps it": {
			serving.Remaining{Kind: "App", State: synced, Objects: []*unstructured.Unstructured{made("a", "1"), made("a", "2", going("composite.apiextensions.crossplane.io", "b.org/c", "b.org/d"))}},
			"2 of kind App remain: a/1, a/2; a/2 has finalizer b.org/c, b.org/d",
		},
		"Its status says what it waits for": {
			serving.Remaining{Kind: "App", State: synced, Objects: []*unstructured.Unstructured{made("a", "1", going("b.org/c"), blockedBy(hold("Bucket", "logs", "it isn't empty")))}},
			"1 of kind App remains: a/1; a/1 waits for Bucket prod/logs (Finalizer: it isn't empty)",
		},
		"The deepest cause counts": {
			serving.Remaining{Kind: "App", State: synced, Objects: []*unstructured.Unstructured{made("a", "1", going(), blockedBy(nested))}},
			"1 of kind App remains: a/1; a/1 waits for Bucket prod/logs (Finalizer: it isn't empty)",
		},
		"A deletion was refused": {
			serving.Remaining{Kind: "App", State: synced, Objects: []*unstructured.Unstructured{made("a", "1")}, Refused: map[types.UID]string{"a/1": "it is in use"}},
			"1 of kind App remains: a/1; a/1 cannot be deleted: it is in use",
		},
		"Of many only some causes": {
			serving.Remaining{Kind: "App", State: synced, Objects: []*unstructured.Unstructured{
				made("a", "1", going("x/y")), made("a", "2", going("x/y")), made("a", "3", going("x/y")), made("a", "4", going("x/y")),
			}},
			"4 of kind App remain: a/1, a/2, a/3, a/4; a/1 has finalizer x/y; a/2 has finalizer x/y; a/3 has finalizer x/y",
		},
		"The objects are unknown": {
			serving.Remaining{Kind: "App", State: watch.State{Phase: watch.Unavailable, Message: "we may not list it"}},
			"cannot determine whether objects of kind App remain: we may not list it",
		},
	}
	for name, tc := range cases {
		if got := remainingText(&tc.left); got != tc.want {
			t.Errorf("%s:\nwant %s\ngot  %s", name, tc.want, got)
		}
	}
}
