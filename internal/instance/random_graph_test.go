package instance

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube/builtin"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/testkit/randomgraph"
)

// TestRandomGraphs changes a random Graph again and again, while its user and the owners of the objects that it patches go on,
// and the program ends at any write. In the end the cluster contains what the nodes say, and after the deletion it is as if
// there had been no Graph. test/graphs does the same on an API server, with fewer Graphs.
func TestRandomGraphs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := &randomRun{T: rt, fixture: contributing(t), graph: randomgraph.New()}
		for range rapid.IntRange(1, 5).Draw(rt, "changes") {
			r.change()
			r.live("crash")
			if rapid.Bool().Draw(rt, "settle") {
				r.settle()
				r.compare()
			}
		}
		r.settle()
		r.compare()
		r.fixture.delete()
		r.live("crash in the deletion")
		r.settle()
		if r.shop() != nil {
			rt.Fatalf("the Graph is not gone: %v", r.shop().Object["status"])
		}
		r.graph.Clear()
		r.compare()
	})
}

type randomRun struct {
	*rapid.T
	*fixture
	graph *randomgraph.Graph
	// written contains the objects of the other manager as it has written them.
	written map[string]randomgraph.Foreign
}

// change changes the Graph, the objects of the other manager and the composer.
func (r *randomRun) change() {
	r.graph.Change(r.T)
	for name, theirs := range r.graph.Theirs {
		before, exists := r.written[name]
		if !exists || theirs.Recreated != before.Recreated {
			r.fixture.theirs(name, map[string]any{randomgraph.Theirs: theirs.Value})
		}
		r.fixture.change(keyOf(name), func(o *unstructured.Unstructured) {
			o.SetLabels(theirs.Labels())
			_ = unstructured.SetNestedField(o.Object, theirs.Value, "data", randomgraph.Theirs)
		})
	}
	r.written = maps.Clone(r.graph.Theirs)
	r.restart()
	r.fixture.change(shop, func(o *unstructured.Unstructured) { o.SetGeneration(o.GetGeneration() + 1) })
}

// restart starts the program anew, with the Graph as it is.
func (r *randomRun) restart() {
	r.crash, r.Reconciler.memories = nil, memories{}
	raw, err := json.Marshal(r.graph.Spec("prod"))
	if err != nil {
		r.T.Fatal(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		r.T.Fatal(err)
	}
	spec, problems := graph.ReadGraph(fields)
	info, _ := builtin.Lookup(configMapKind)
	compiled, found := graph.CompileGraph(spec, graph.Kinds{configMapKind: info})
	if problems.Add(found...); len(problems) > 0 {
		r.T.Fatalf("%v in %s", problems.Err(), raw)
	}
	r.SetComposer(randomGraph{compiled})
}

type randomGraph struct{ *graph.Graph }

func (g randomGraph) Compose(ctx context.Context, facts plan.Facts) (plan.Desired, error) {
	return g.ComposeWithin(ctx.Err, facts)
}
func (g randomGraph) Depth() int                    { return len(g.Nodes) + 1 }
func (g randomGraph) StatusFields() report.FieldSet { return wholeRoom }
func (g randomGraph) Defaults() inventory.Defaults  { return g.DeletionDefaults }

// live reconciles the Graph a few times, until the program ends at a random write.
func (r *randomRun) live(label string) {
	after, writes := rapid.IntRange(0, 12).Draw(r.T, label), 0
	r.crash = func(call string) error {
		if writes >= after {
			return context.Canceled
		}
		if !strings.HasPrefix(call, "get ") && !strings.HasPrefix(call, "list ") {
			writes++
		}
		return nil
	}
	for range 2 {
		if r.shop() != nil {
			r.fixture.reconcile()
		}
	}
	r.restart()
}

// settle reconciles the Graph until nothing is written any more.
func (r *randomRun) settle() {
	for range 20 {
		r.fixture.pass(time.Minute)
		if out := r.fixture.reconcile(); out.Err != nil {
			r.T.Fatalf("%v, at %v", out.Err, r.calls)
		}
		if len(r.calls) == 0 || r.shop() == nil {
			return
		}
	}
	r.T.Fatalf("it goes on with %v", r.calls)
}

// compare compares the data of all ConfigMaps and who owns the fields of foreign ones, and what the status records.
func (r *randomRun) compare() {
	want, got, patched, recorded := r.graph.Data(), map[string]map[string]string{}, 0, 0
	for key, o := range r.objects {
		if key.Kind != "ConfigMap" {
			continue
		}
		got[key.Name], _, _ = unstructured.NestedStringMap(o.Object, "data")
		if _, foreign := r.graph.Theirs[key.Name]; !foreign {
			continue
		}
		own := ownership.Managers(o, func(e ownership.Entry) bool {
			return plan.IsContributor(e.Manager, string(metav1.ManagedFieldsOperationApply))
		})
		if patched += len(own); len(own) > 0 != (want[key.Name][randomgraph.Mine] != "") {
			r.T.Errorf("%s has fields of %v", key.Name, own)
		}
		if owners := ownership.Owners(o, ownership.Path("data", randomgraph.Theirs)); !slices.Equal(owners, []string{"kubectl"}) {
			r.T.Errorf("the foreign field of %s is owned by %v", key.Name, owners)
		}
	}
	status := any(nil)
	if o := r.shop(); o != nil {
		recorded, status = len(report.ReadContributions(o)), o.Object["status"]
	}
	if diff := gocmp.Diff(want, got); diff != "" || recorded != patched {
		text, _ := json.Marshal(r.graph.Spec("prod"))
		r.T.Fatalf("ConfigMaps (-want +got):\n%s%d contributions, %d recorded\nof %s\nstatus: %v", diff, patched, recorded, text, status)
	}
}
