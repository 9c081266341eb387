package protection

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

// childOf returns a change that makes an object the child of an App, as the controllers do with a
// key of the installation, and whoever may write labels can do without.
func childOf(keys inventory.Keys, namespace, name string) func(*unstructured.Unstructured) {
	owner := inventory.Owner{Kind: appKind, Namespace: namespace, Name: name, UID: "app-1", Definition: object.Definition{Dialect: object.GraphDialect}, Keys: keys}
	return func(o *unstructured.Unstructured) { owner.Mark(o, inventory.Place{Node: "it"}) }
}

// Whoever creates a Usage with the labels of a child would otherwise see by its deletion whether
// an object of another namespace exists.
func TestForgedLabelsShowNoObjectOfAnotherNamespace(t *testing.T) {
	w := newWorld(t, used, user, usageByUser)
	w.r.Keys = signing.Keys()
	w.Change(usageKey, childOf(inventory.Keys{}, "other", "guessed"))
	w.Change(usageKey, deleted(v1beta1.Finalizer))
	w.refreshIndex()
	w.reconcile(t)
	if w.Object(usageKey) != nil {
		t.Errorf("the usage waits, since there is no App other/guessed: %s", w.ready())
	}
	if slices.Contains(w.Watched[usageKey], "App other/guessed") {
		t.Error("an object of another namespace is read")
	}
}

func TestAUsageThatIsDeletedWithItsInstanceWaitsForItsUser(t *testing.T) {
	w := newWorld(t, used, user, usageByUser)
	w.r.Keys = signing.Keys()
	w.Change(usageKey, childOf(w.r.Keys, "other", "app"))
	w.Change(usageKey, deleted(v1beta1.Finalizer))
	w.refreshIndex()
	w.reconcile(t)
	if w.Object(usageKey) == nil {
		t.Error("the usage is gone before its user")
	}
}

// Whoever may write the labels of the user would otherwise end the protection of the used object.
func TestForgedLabelsRelateNoObjects(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		keys    inventory.Keys
		created time.Time
		want    usage.Relation
	}{
		{"the controllers have signed the child", signing.Keys(), signing.Created.Add(time.Hour), usage.UserIsDescendant},
		{"its labels are forged", inventory.Keys{}, signing.Created.Add(time.Hour), usage.Unrelated},
		{"a release that does not sign has written the labels", inventory.Keys{}, signing.Created.Add(-time.Hour), usage.UserIsDescendant},
	} {
		w := newWorld(t, used, user, `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: u, namespace: prod, uid: usage-1, generation: 2}
spec:
  of: {apiVersion: example.org/v1, kind: App, resourceRef: {name: app}}
  by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: user}}`, `
apiVersion: example.org/v1
kind: App
metadata: {name: app, namespace: prod, uid: app-1}`)
		w.r.Keys = signing.Keys()
		w.Change(userKey, childOf(tc.keys, "prod", "app"))
		w.Change(userKey, func(o *unstructured.Unstructured) { o.SetCreationTimestamp(metav1.NewTime(tc.created)) })
		w.reconcile(t)
		uses, _ := w.r.Index.UsesOf(object.Key{Group: appKind.Group, Kind: "App", Namespace: "prod", Name: "app"})
		if len(uses) != 1 || uses[0].Relation != tc.want {
			t.Errorf("%s: got %+v, want the relation %q", tc.reason, uses, tc.want)
		}
	}
}
