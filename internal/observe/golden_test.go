package observe_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestGoldens reads testdata: objects.yaml, the root first, and now, the time. Expected are the
// table and, if an archive has a file for it, the tree on terminals of 80 and 120 columns, what
// blocks its deletion, why it is not ready, and the JSON. With -update a new archive gets all of
// them.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		now, err := time.Parse(time.RFC3339, strings.TrimSpace(a.Input["now"]))
		if err != nil {
			t.Fatal(err)
		}
		tree := observe.Build(state(t, a.Input["objects.yaml"]), now)
		rows := observe.Rows(tree, now)
		a.Record("table", observe.Table(rows, 0))
		for _, view := range []struct{ name, text string }{
			{"tree-80", observe.Text(rows, 80)},
			{"tree-120", observe.Text(rows, 120)},
			{"blockers", observe.FindBlockers(tree).Text(now, 0)},
			{"blockers-80", observe.FindBlockers(tree).Text(now, 80)},
			{"blockers-120", observe.FindBlockers(tree).Text(now, 120)},
			{"json", string(tree.JSON())},
			{"why-80", observe.Explain(tree, now).Text(now, 80)},
			{"why-120", observe.Explain(tree, now).Text(now, 120)},
		} {
			if !a.Wants(view.name) && !a.IsNew() {
				continue
			}
			a.Record(view.name, view.text)
			if width := widthIn(view.name); width > 0 {
				golden.CheckWidth(t, view.name, view.text, width)
			}
		}
		for i, node := range tree.Children {
			of := report.Object{APIVersion: node.APIVersion, Kind: node.Kind, Namespace: node.Namespace, Name: node.Name}
			view := fmt.Sprintf("why-child-%d", i)
			if explained, found := observe.ExplainChild(tree, of, now); a.Wants(view) || a.IsNew() && found {
				a.Record(view, explained.Text(now, 80))
			}
		}
	})
}

// widthIn is the width in the name of a view, such as tree-80; 0 for none.
func widthIn(name string) int {
	_, digits, _ := strings.Cut(name, "-")
	width, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return width
}

// state reads objects, the root first.
func state(t *testing.T, text string) observe.ClusterState {
	t.Helper()
	w := observe.ClusterState{Instances: map[types.UID][]*unstructured.Unstructured{}, Children: map[string][]*unstructured.Unstructured{}, Definitions: map[types.NamespacedName]*unstructured.Unstructured{}}
	for _, doc := range strings.Split(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		raw, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if err := o.UnmarshalJSON(raw); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if o.GetKind() == "ResourceGraphDefinition" && w.Root != nil {
			w.Definitions[types.NamespacedName{Name: o.GetName()}] = o
			continue
		}
		if w.Root == nil {
			w.Root = o
			continue
		}
		if o.GetKind() == "Event" {
			w.Events = append(w.Events, o)
			continue
		}
		id := o.GetLabels()["applyset.kubernetes.io/part-of"]
		if w.Root.GetKind() == "ResourceGraphDefinition" && o.GetKind() == "Site" {
			w.Instances[w.Root.GetUID()] = append(w.Instances[w.Root.GetUID()], o)
		}
		w.Children[id] = append(w.Children[id], o)
	}
	return w
}
