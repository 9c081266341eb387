package installations

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// define applies a definition of the kind, whose instances have the status value PREFIX-VALUE.
func (w *world) define(t *testing.T, kind, name, labels, prefix string) {
	t.Helper()
	w.Apply(t, fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-%s, labels: {%s}}
spec:
  schema: {apiVersion: v1alpha1, kind: %s, group: $GROUP, spec: {value: string}, status: {value: "${child.data.value}"}}
  resources:
    - id: child
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-%s"}, data: {value: "%s-${schema.spec.value}"}}
`, name, labels, kind, name, prefix))
}

func (w *world) create(t *testing.T, kind, namespace, value string) {
	t.Helper()
	w.Apply(t, fmt.Sprintf("\napiVersion: $GROUP/v1alpha1\nkind: %s\nmetadata: {name: x, namespace: %s}\nspec: {value: %s}\n", kind, namespace, value))
}

func (w *world) awaitValue(t *testing.T, kind, namespace, value string) {
	t.Helper()
	w.Await(t, w.Kind(kind), namespace, "x", suite.All(testkit.IsReady, suite.HasField(value, "status", "value")))
}

// TestNamespacesDivideACluster has an installation for one namespace, and one for everything else.
func TestNamespacesDivideACluster(t *testing.T) {
	w := newWorld(t)
	main, one := w.install(t, []string{"!" + w.other}, ""), w.install(t, []string{w.other}, "")
	main.awaitReady(t)
	one.awaitReady(t)

	w.define(t, "Thing", "thing", "", "a")
	w.AwaitDefinitions(t, "thing")
	for _, namespace := range []string{w.NS, w.other} {
		w.create(t, "Thing", namespace, "one")
		w.awaitValue(t, "Thing", namespace, "a-one")
	}
	w.define(t, "Thing", "thing", "", "b") // both serve the new revision
	for _, namespace := range []string{w.NS, w.other} {
		w.awaitValue(t, "Thing", namespace, "b-one")
	}

	hold := w.Apply(t, "\napiVersion: espalier.dev/v1alpha1\nkind: Hold\nmetadata: {name: $ID}\nspec: {reason: a test}\n")[0]
	acknowledged := w.Await(t, hold.GroupVersionKind(), "", hold.GetName(), func(o *unstructured.Unstructured) error {
		if since, _, _ := unstructured.NestedString(o.Object, "status", "restingSince"); since == "" {
			return errors.New("it is not acknowledged")
		}
		return nil
	})
	if resting, _, _ := unstructured.NestedMap(acknowledged.Object, "status", "resting"); len(resting) != 2 {
		t.Errorf("acknowledged by %v, want two installations", resting)
	}
	w.Delete(t, hold.GroupVersionKind(), "", hold.GetName())

	w.Delete(t, w.Kind("Thing"), w.other, "x")
	w.AwaitGone(t, w.Kind("Thing"), w.other, "x")
	w.AwaitGone(t, suite.ConfigMap, w.other, "x-thing")
	w.create(t, "Thing", w.other, "two")
	w.awaitValue(t, "Thing", w.other, "b-two")

	t.Log("the definition is deleted: its instances end in both installations")
	w.Delete(t, suite.RGD, "", w.Name("thing"))
	for _, namespace := range []string{w.NS, w.other} {
		w.Delete(t, w.Kind("Thing"), namespace, "x")
		w.AwaitGone(t, w.Kind("Thing"), namespace, "x")
		w.AwaitGone(t, suite.ConfigMap, namespace, "x-thing")
	}
	w.AwaitGone(t, suite.RGD, "", w.Name("thing"))

	if wrong := main.written("/namespaces/" + w.other + "/"); len(wrong) > 0 {
		t.Errorf("the main installation wrote in the namespace of the other: %q", wrong)
	}
	if wrong := one.written("/kro.run/v1alpha1/resourcegraphdefinitions"); len(wrong) > 0 {
		t.Errorf("the installation for a namespace wrote definitions: %q", wrong)
	}
	if len(one.written("/namespaces/"+w.other+"/")) == 0 {
		t.Error("the installation for a namespace wrote nothing there")
	}
}

// TestLabelsDivideDefinitions has an installation for definitions with a label, and one for those without. A definition
// moves with its label.
func TestLabelsDivideDefinitions(t *testing.T) {
	w := newWorld(t)
	main, labeled := w.install(t, nil, "!shard"), w.install(t, nil, "shard=a")
	main.awaitReady(t)
	labeled.awaitReady(t)

	w.define(t, "Plain", "plain", "", "a")
	w.define(t, "Labeled", "labeled", "shard: a", "a")
	w.AwaitDefinitions(t, "plain", "labeled")
	w.create(t, "Plain", w.NS, "one")
	w.create(t, "Labeled", w.other, "one")
	w.awaitValue(t, "Plain", w.NS, "a-one")
	w.awaitValue(t, "Labeled", w.other, "a-one")
	if wrong := main.written("/namespaces/" + w.other + "/"); len(wrong) > 0 {
		t.Errorf("the main installation wrote for the labeled definition: %q", wrong)
	}
	if wrong := labeled.written("/" + w.Name("plain")); len(wrong) > 0 {
		t.Errorf("the installation of a label wrote the definition without it: %q", wrong)
	}

	t.Log("the label moves the definition, with its instances")
	w.Patch(t, suite.RGD, "", w.Name("labeled"), `{"metadata": {"labels": {"shard": null}}}`)
	w.create(t, "Labeled", w.other, "two")
	w.awaitValue(t, "Labeled", w.other, "a-two")
	labeled.stop()
	w.create(t, "Labeled", w.other, "three")
	w.awaitValue(t, "Labeled", w.other, "a-three")
}

// TestAnInstallationWaitsForTheOneThatItReplaces is a rollout that divides the namespaces: the former process works on all
// objects until it is stopped.
func TestAnInstallationWaitsForTheOneThatItReplaces(t *testing.T) {
	w := newWorld(t)
	former := w.install(t, nil, "")
	former.awaitReady(t)
	next := w.install(t, []string{w.other}, "")
	w.define(t, "Thing", "thing", "", "a")
	w.AwaitDefinitions(t, "thing")
	w.create(t, "Thing", w.other, "one")
	w.awaitValue(t, "Thing", w.other, "a-one")
	select {
	case <-next.ready:
		t.Error("it runs beside an installation that works on all objects")
	default:
	}
	former.stop()
	next.awaitReady(t)
	w.create(t, "Thing", w.other, "two")
	w.awaitValue(t, "Thing", w.other, "a-two")
}

// TestOverlappingInstallationsEnd has two installations for the same namespace: the later one ends, and says why.
func TestOverlappingInstallationsEnd(t *testing.T) {
	w := newWorld(t)
	former := w.install(t, []string{w.other}, "")
	former.awaitReady(t)
	err := <-w.install(t, []string{w.NS, w.other}, "").ended
	if err == nil || !strings.Contains(err.Error(), "would work on the same objects") || !strings.Contains(err.Error(), "--watch-namespaces="+w.other) {
		t.Errorf("it ended with %v", err)
	}
}
