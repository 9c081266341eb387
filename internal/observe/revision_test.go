package observe_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestRevisionsAreExplained reads testdata/revisions: objects.yaml has definitions, compositions and revisions, and an instance in several
// states, whose names say what differs. Expected is the text of each at 80 and 120 columns, and the JSON of the first.
func TestRevisionsAreExplained(t *testing.T) {
	golden.Run(t, "testdata/revisions/*.txtar", func(t *testing.T, a *golden.Archive) {
		var instances, revisions []*unstructured.Unstructured
		definitions := map[string]*unstructured.Unstructured{}
		var all observe.Compositions
		for _, o := range objects(t, a.Input["objects.yaml"]) {
			switch o.GetKind() {
			case "ResourceGraphDefinition", "ResourceGroup":
				definitions[o.GetName()] = o
			case "GraphRevision":
				revisions = append(revisions, o)
			case "CompositeResourceDefinition":
				all.Definitions = append(all.Definitions, o)
			case "Composition":
				all.Compositions = append(all.Compositions, o)
			case "CompositionRevision":
				all.Revisions = append(all.Revisions, o)
			default:
				instances = append(instances, o)
			}
		}
		for i, o := range instances {
			var r *observe.Revision
			if name, isGraph := observe.DefinitionOf(o); isGraph {
				r = observe.ExplainGraphRevision(o, definitions[name.Name], revisions)
			} else {
				snapshot, isClaim, found := all.Snapshot(o.GroupVersionKind().GroupKind())
				if !found {
					t.Fatalf("no definition of %s", o.GetKind())
				}
				composite, claim := o, (*unstructured.Unstructured)(nil)
				if isClaim {
					composite, claim = named(t, instances, o.GetName()+"-composite"), o
				}
				r = observe.ExplainCompositionRevision(composite, claim, snapshot)
			}
			for _, width := range []int{80, 120} {
				e := observe.Explanation{Cause: o.GetKind() + " " + o.GetName() + " is ready", Revision: r}
				a.Record(fmt.Sprintf("%s-%d", o.GetName(), width), e.Text(time.Time{}, width))
			}
			if i == 0 {
				raw, err := json.MarshalIndent(r, "", "  ")
				if err != nil {
					t.Fatal(err)
				}
				a.Record("json", string(raw)+"\n")
			}
		}
	})
}

func named(t *testing.T, all []*unstructured.Unstructured, name string) *unstructured.Unstructured {
	t.Helper()
	i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s", name)
	}
	return all[i]
}

// objects reads a stream of objects.
func objects(t *testing.T, text string) (out []*unstructured.Unstructured) {
	t.Helper()
	for _, doc := range strings.Split(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		raw, err := yaml.YAMLToJSON([]byte(doc))
		if err == nil {
			err = o.UnmarshalJSON(raw)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		out = append(out, o)
	}
	return out
}
