package instance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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
)

// TestRandomGraphs changes a random Graph again and again, while its user and the owners of the objects that it patches go on,
// and the program ends at any write. Then the cluster is what a plain evaluation of the nodes says, and after the deletion
// it is as if there had been no Graph.
func TestRandomGraphs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := &randomRun{T: rt, fixture: contributing(t), theirs: map[string]string{}}
		for i := range 4 {
			r.setTheirs(fmt.Sprint("theirs", i), "x")
		}
		for range rapid.IntRange(1, 5).Draw(rt, "changes") {
			r.change()
			r.live("crash")
			if rapid.Bool().Draw(rt, "settle") {
				r.settle()
				r.compare(r.expected())
			}
		}
		r.settle()
		r.compare(r.expected())
		r.fixture.delete()
		r.live("crash in the deletion")
		r.settle()
		if r.shop() != nil {
			rt.Fatalf("the Graph is not gone: %v", r.shop().Object["status"])
		}
		r.nodes = nil
		r.compare(r.expected())
	})
}

// randomNode is a node of a random Graph. It has a value, which is that of the node that it reads with its own text.
type randomNode struct {
	ID, Kind, Text string
	// Reads is the id of an earlier node with a value; empty for none.
	Reads string
	// Target is the name of the object: its own, that which it patches, or that which it reads.
	Target   string
	Included bool
	// Nested says that the node is in a graph of its own.
	Nested bool
	// Items are those of its collection.
	Items []string
}

// Kinds of random nodes.
const (
	ofTemplate, ofDef, ofRef, ofPatch, ofForEach = "template", "def", "ref", "patch", "forEach"
)

type randomRun struct {
	*rapid.T
	*fixture
	nodes []*randomNode
	// theirs are the values of the objects of another manager.
	theirs map[string]string
	ids    int
}

func (r *randomRun) setTheirs(name, value string) {
	r.theirs[name] = value
	if r.objects[keyOf(name)] == nil {
		r.fixture.theirs(name, map[string]any{"theirs": value})
		return
	}
	r.fixture.change(keyOf(name), func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, value, "data", "theirs")
	})
}

// change makes one to three changes of the Graph, and has the composer of the controllers be of its new nodes.
func (r *randomRun) change() {
	for range rapid.IntRange(1, 3).Draw(r.T, "edits") {
		r.edit()
	}
	if len(r.nodes) == 0 {
		r.add()
	}
	for _, n := range r.nodes {
		if n.Reads != "" && r.node(n.Reads) == nil {
			n.Reads = ""
		}
	}
	r.restart()
	r.fixture.change(shop, func(o *unstructured.Unstructured) { o.SetGeneration(o.GetGeneration() + 1) })
}

func (r *randomRun) edit() {
	action := rapid.SampledFrom([]string{"add", "add", "add", "remove", "rename", "retarget", "text", "include", "items", "theirs", "recreate"}).Draw(r.T, "edit")
	if action == "theirs" || action == "recreate" {
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(r.theirs))).Draw(r.T, "whose")
		if action == "recreate" {
			delete(r.objects, keyOf(name))
		}
		r.setTheirs(name, rapid.StringMatching(`[xyz]`).Draw(r.T, "their value"))
		return
	}
	if action == "add" || len(r.nodes) == 0 {
		r.add()
		return
	}
	i := rapid.IntRange(0, len(r.nodes)-1).Draw(r.T, "node")
	n := r.nodes[i]
	switch action {
	case "remove":
		r.nodes = slices.Delete(r.nodes, i, i+1)
	case "rename":
		before := n.ID
		n.ID = r.newID()
		for _, reader := range r.nodes {
			if reader.Reads == before {
				reader.Reads = n.ID
			}
		}
	case "retarget":
		n.Target = cmp.Or(r.target(n.Kind), n.Target)
	case "text":
		n.Text = rapid.StringMatching(`[a-d]`).Draw(r.T, "text")
	case "include":
		n.Included = !n.Included
	case "items":
		n.Items = r.items()
	}
}

func (r *randomRun) newID() string {
	r.ids++
	return fmt.Sprint("n", r.ids)
}

func (r *randomRun) items() []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"p", "q", "r"}), 0, 3, rapid.ID).Draw(r.T, "items")
}

// target is a free name for the object of a node of the kind. Only references share objects.
func (r *randomRun) target(kind string) string {
	base := "own"
	switch kind {
	case ofDef:
		return "nothing"
	case ofPatch, ofRef:
		base = "theirs"
	}
	var free []string
	for i := range 4 {
		name := fmt.Sprint(base, i)
		if kind == ofRef || !slices.ContainsFunc(r.nodes, func(n *randomNode) bool { return n.Kind != ofRef && n.Target == name }) {
			free = append(free, name)
		}
	}
	if len(free) == 0 {
		return ""
	}
	return rapid.SampledFrom(free).Draw(r.T, "target")
}

func (r *randomRun) add() {
	kind := rapid.SampledFrom([]string{ofTemplate, ofDef, ofRef, ofPatch, ofForEach}).Draw(r.T, "kind")
	target := r.target(kind)
	if len(r.nodes) == 6 || target == "" {
		return
	}
	n := &randomNode{Kind: kind, ID: r.newID(), Target: target, Text: rapid.StringMatching(`[a-d]`).Draw(r.T, "text"),
		Included: rapid.IntRange(0, 3).Draw(r.T, "included") > 0, Nested: rapid.IntRange(0, 2).Draw(r.T, "nested") == 0, Items: r.items()}
	readable := []string{""}
	for _, other := range r.nodes {
		if other.Kind != ofPatch {
			readable = append(readable, other.ID)
		}
	}
	if kind != ofRef {
		n.Reads = rapid.SampledFrom(readable).Draw(r.T, "reads")
	}
	r.nodes = append(r.nodes, n)
}

func (r *randomRun) node(id string) *randomNode {
	for _, n := range r.nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// restart has the program start anew, with the Graph as it is.
func (r *randomRun) restart() {
	r.crash, r.Reconciler.memories = nil, memories{}
	raw, err := json.Marshal(r.spec())
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

// randomGraph composes a Graph.
type randomGraph struct{ *graph.Graph }

func (g randomGraph) Compose(ctx context.Context, facts plan.Facts) (plan.Desired, error) {
	return g.ComposeWithin(ctx.Err, facts)
}
func (g randomGraph) Depth() int                    { return len(g.Nodes) + 1 }
func (g randomGraph) StatusFields() report.FieldSet { return wholeRoom }
func (g randomGraph) Defaults() inventory.Defaults  { return g.DeletionDefaults }

// spec is that of the Graph.
func (r *randomRun) spec() map[string]any {
	included, items := map[string]any{"none": true}, map[string]any{"none": []string{"p"}}
	nodes := []any{map[string]any{"id": "included", "def": included}, map[string]any{"id": "lists", "def": items}}
	for _, n := range r.nodes {
		included[n.ID], items[n.ID] = n.Included, n.Items
		fields := n.fields(r.read(n))
		if fields["id"] = n.ID; n.Kind != ofRef {
			fields["includeWhen"] = []any{"${included." + n.ID + "}"}
		}
		if n.Nested {
			fields = map[string]any{"id": "g" + n.ID, "graph": map[string]any{"nodes": []any{fields}}}
		}
		nodes = append(nodes, fields)
	}
	return map[string]any{"nodes": nodes}
}

// read is the expression of the value that a node reads, in a text.
func (r *randomRun) read(n *randomNode) string {
	from := r.node(n.Reads)
	if from == nil {
		return ""
	}
	path := from.ID
	if from.Nested {
		path = "g" + path + "." + path
	}
	switch from.Kind {
	case ofDef:
		path += ".v"
	case ofRef:
		path += ".data.theirs"
	case ofForEach:
		path += ".map(o, o.data.v).join('+')"
	default:
		path += ".data.v"
	}
	return "-${" + path + "}"
}

// fields are those of a node with a value.
func (n *randomNode) fields(read string) map[string]any {
	object := func(name, field, value string) map[string]any {
		out := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "prod"}}
		if field != "" {
			out["data"] = map[string]any{field: value}
		}
		return out
	}
	switch n.Kind {
	case ofDef:
		return map[string]any{"def": map[string]any{"v": n.Text + read}}
	case ofRef:
		return map[string]any{"ref": object(n.Target, "", "")}
	case ofPatch:
		return map[string]any{"patch": object(n.Target, "mine", n.Text+read)}
	case ofForEach:
		return map[string]any{"forEach": []any{map[string]any{"x": "${lists." + n.ID + "}"}}, "template": object(n.Target+"-${x}", "v", n.Text+"${x}"+read)}
	}
	return map[string]any{"template": object(n.Target, "v", n.Text+read)}
}

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

// value is the plain evaluation of a node: its value, and whether it is there.
func (r *randomRun) value(n *randomNode) (string, bool) {
	if n.Kind == ofRef {
		return r.theirs[n.Target], true
	}
	read, there := "", n.Included
	if from := r.node(n.Reads); from != nil {
		of, has := r.value(from)
		read, there = "-"+of, there && has
	}
	if n.Kind != ofForEach {
		return n.Text + read, there
	}
	var values []string
	for _, item := range n.Items {
		values = append(values, n.Text+item+read)
	}
	return strings.Join(values, "+"), there
}

// expected are the data of all ConfigMaps, as the nodes say.
func (r *randomRun) expected() map[string]map[string]any {
	out := map[string]map[string]any{}
	for name, value := range r.theirs {
		out[name] = map[string]any{"theirs": value}
	}
	for _, n := range r.nodes {
		value, there := r.value(n)
		switch {
		case !there:
		case n.Kind == ofTemplate:
			out[n.Target] = map[string]any{"v": value}
		case n.Kind == ofPatch:
			out[n.Target]["mine"] = value
		case n.Kind == ofForEach:
			read := ""
			if from := r.node(n.Reads); from != nil {
				read, _ = r.value(from)
				read = "-" + read
			}
			for _, item := range n.Items {
				out[n.Target+"-"+item] = map[string]any{"v": n.Text + item + read}
			}
		}
	}
	return out
}

// compare compares the data of all ConfigMaps and who owns the fields of foreign ones, and what the status records.
func (r *randomRun) compare(want map[string]map[string]any) {
	got, patched, recorded := map[string]map[string]any{}, 0, 0
	for key, o := range r.objects {
		if key.Kind != "ConfigMap" {
			continue
		}
		got[key.Name], _, _ = unstructured.NestedMap(o.Object, "data")
		if _, foreign := r.theirs[key.Name]; !foreign {
			continue
		}
		own := ownership.Managers(o, func(e ownership.Entry) bool {
			return plan.IsContributor(e.Manager, string(metav1.ManagedFieldsOperationApply))
		})
		if patched += len(own); len(own) > 0 != (want[key.Name]["mine"] != nil) {
			r.T.Errorf("%s has fields of %v", key.Name, own)
		}
		if owners := ownership.Owners(o, ownership.Path("data", "theirs")); !slices.Equal(owners, []string{"kubectl"}) {
			r.T.Errorf("the foreign field of %s is owned by %v", key.Name, owners)
		}
	}
	status := any(nil)
	if o := r.shop(); o != nil {
		recorded, status = len(report.ReadContributions(o)), o.Object["status"]
	}
	if diff := gocmp.Diff(want, got); diff != "" || recorded != patched {
		text, _ := json.Marshal(r.spec())
		r.T.Fatalf("ConfigMaps (-want +got):\n%s%d contributions, %d recorded\nof %s\nstatus: %v", diff, patched, recorded, text, status)
	}
}
