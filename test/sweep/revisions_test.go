package sweep

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/controller/definition"
	"github.com/espalier-dev/espalier/internal/testkit"
)

const waves = "rollout: {waves: [{percent: 50, pause: 1h}]}"

// edition is a definition of boxes that says which edition it is.
func edition(group, word, more string) string {
	return fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: %[1]s}
spec:
  %[3]s
  schema: {apiVersion: v1alpha1, kind: Box, group: %[1]s, spec: {a: string}, status: {edition: "${content.data.edition}"}}
  resources:
    - id: content
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {edition: %[2]s}}
`, group, word, more)
}

// TestRevisionsServeAcrossRestarts restarts the controllers while the definition is broken,
// and while a rollout is under way: what served goes on serving.
func TestRevisionsServeAcrossRestarts(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	group, ns := testkit.Group(t), testkit.Namespace(t, config)
	box := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Box"}
	rgd := schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"}
	box4 := []string{"a", "b", "c", "d"}
	put := func(names ...string) {
		for _, name := range names {
			w.Apply(t, fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: Box\nmetadata: {name: %s, namespace: %s}\n", group, name, ns))
		}
	}
	editionOf := func(o *unstructured.Unstructured) string {
		word, _, _ := unstructured.NestedString(o.Object, "status", "edition")
		return word
	}
	is := func(name, word string) {
		t.Helper()
		w.Await(t, box, ns, name, func(o *unstructured.Unstructured) error {
			if o == nil || editionOf(o) != word {
				return errors.New("is not edition " + word)
			}
			return testkit.IsReady(o)
		})
	}
	status := func(so func(map[string]any) bool) {
		t.Helper()
		w.Await(t, rgd, "", group, func(o *unstructured.Unstructured) error {
			if said, _, _ := unstructured.NestedMap(o.Object, "status"); !so(said) {
				return errors.New("does not say so")
			}
			return nil
		})
	}
	stop := run(t, config)
	defer func() { stop() }()
	w.Apply(t, edition(group, "one", waves))
	w.AwaitReady(t, rgd, "", group)
	put(box4...)
	for _, name := range box4 {
		is(name, "one")
	}

	t.Log("in the middle of a rollout")
	w.Apply(t, edition(group, "two", waves))
	pausing := func(s map[string]any) bool {
		rollout, _ := s["rollout"].(map[string]any)
		ready, _ := rollout["ready"].(int64)
		return rollout["phase"] == "Pausing" && ready >= 2 && s["servingRevision"] == int64(1) // one that comes may belong to the wave
	}
	status(pausing)
	want := map[string]string{}
	for _, name := range box4 {
		want[name] = editionOf(w.Get(t, box, ns, name))
	}
	stop()
	stop = run(t, config)
	put("new")
	w.AwaitReady(t, box, ns, "new")
	status(pausing)
	for name, word := range want {
		is(name, word)
	}

	t.Log("the newest content is broken, and nothing is remembered: the one that served serves")
	w.Apply(t, edition(group, "two", ""))
	for _, name := range box4 {
		is(name, "two")
	}
	w.Apply(t, edition(group, `"${nothing}"`, ""))
	status(func(s map[string]any) bool { return s["state"] == "Inactive" && s["servingRevision"] == int64(2) })
	stop()
	stop = run(t, config)
	put("late")
	is("late", "two")
	if list := w.Get(t, definition.RevisionKind, "", group+"-r00003"); list != nil {
		t.Error("what doesn't compile is a revision")
	}

	t.Log("its revisions go with it")
	for _, name := range append(box4, "new", "late") {
		w.Delete(t, box, ns, name)
		w.AwaitGone(t, box, ns, name)
	}
	w.Delete(t, rgd, "", group)
	w.AwaitGone(t, rgd, "", group)
	w.AwaitGone(t, definition.RevisionKind, "", group+"-r00001")
	w.AwaitGone(t, definition.RevisionKind, "", group+"-r00002")
}
