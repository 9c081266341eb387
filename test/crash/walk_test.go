package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

// drawnGraph is a random definition, with the specs that an instance of it gets.
type drawnGraph struct {
	definition map[string]any
	specs      []map[string]any
	// crashes are, for each spec, the number of the write after which the controllers crash; 0 if
	// they do not crash before the instance is ready.
	crashes []int
}

// TestSweepARevertedSpecGivesTheSameChildren changes instances of random definitions from a spec
// A to others and back to A, with crashes of the controllers at random writes. In the end the
// children are those of a new instance with spec A, and nothing is written while nothing changes.
func TestSweepARevertedSpecGivesTheSameChildren(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	points := 0
	for seed := range testkit.Size(3, 300) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			j := rapid.Custom(func(draw *rapid.T) drawnGraph { return drawGraph(draw, fmt.Sprintf("Walk%d", seed)) }).Example(seed)
			points += j.sweep(t, config, w)
		})
	}
	testkit.Report(t, "sweep: %d journeys of drawn definitions with %d crashes", testkit.Size(3, 300), points)
}

func (j drawnGraph) kind() schema.GroupVersionKind {
	name, _, _ := unstructured.NestedString(j.definition, "spec", "schema", "kind")
	return steps.Kind(name)
}

func (j drawnGraph) sweep(t *testing.T, config *rest.Config, w *testkit.Cluster) (crashes int) {
	t.Helper()
	defer func() {
		if t.Failed() {
			text, _ := yaml.Marshal(j.definition)
			t.Logf("specs %v, crashes %v\n%s", j.specs, j.crashes, text)
		}
	}()
	stop := steps.Run(t, config)
	text, err := yaml.Marshal(j.definition)
	if err != nil {
		t.Fatal(err)
	}
	w.Apply(t, string(text))
	w.AwaitReady(t, suite.RGD, "", strings.ToLower(j.kind().Kind))
	fresh, ns := testkit.Namespace(t, config), testkit.Namespace(t, config)
	j.apply(t, w, fresh, j.specs[0])
	wantInstance := j.outcome(w.AwaitReady(t, j.kind(), fresh, "x"))
	wantChildren := j.outcome(j.children(t, w, fresh)...)
	stop()

	for i, spec := range j.specs {
		crash := testkit.NewCrash(j.crashes[i])
		stop := steps.Run(t, crash.Wrap(config))
		j.apply(t, w, ns, spec)
		if err := awaitReadyOrCrash(t.Context(), crash.Crashed(), w.Resource(t, j.kind(), ns)); err != nil {
			t.Fatalf("with spec %d: %v", i, err)
		}
		stop()
		select {
		case <-crash.Crashed():
			crashes++
		default:
		}
	}

	// A reconcile that has deleted a child may write the progress after the last status has been read, and then the
	// controllers stop before they observe the deletion.
	for settled := false; !settled; {
		stop := steps.Run(t, config)
		j.awaitOutcome(t, w, ns, wantInstance, wantChildren)
		stop()
		settled = slices.Equal(wantInstance, j.outcome(w.Get(t, j.kind(), ns, "x")))
	}
	j.expectNoWrites(t, config, w, fresh, ns)
	return crashes
}

// awaitOutcome waits until the instance and its children are as expected.
func (j drawnGraph) awaitOutcome(t *testing.T, w *testkit.Cluster, ns string, wantInstance, wantChildren []string) {
	t.Helper()
	const differs = "back at the first spec the cluster differs (-of a new instance +of this one):\n%s"
	w.AwaitReady(t, j.kind(), ns, "x")
	w.AwaitList(t, suite.ConfigMap, ns, "kro.run/owned", func(objects map[string]*unstructured.Unstructured) error {
		if diff := cmp.Diff(wantChildren, j.outcome(slices.Collect(maps.Values(objects))...)); diff != "" {
			return fmt.Errorf(differs, diff)
		}
		return nil
	})
	// The status follows the children: it still lists those whose deletion has just been observed.
	w.Await(t, j.kind(), ns, "x", func(o *unstructured.Unstructured) error {
		if diff := cmp.Diff(wantInstance, j.outcome(o)); diff != "" {
			return fmt.Errorf(differs, diff)
		}
		return nil
	})
}

// expectNoWrites starts the controllers once more, and expects that they write nothing in the
// namespaces of settled instances. It waits for a new instance, which is reconciled after existing
// ones.
func (j drawnGraph) expectNoWrites(t *testing.T, config *rest.Config, w *testkit.Cluster, settled ...string) {
	t.Helper()
	recorded, writes := recordWrites(config)
	stop := steps.Run(t, recorded)
	defer stop()
	last := testkit.Namespace(t, config)
	j.apply(t, w, last, j.specs[0])
	w.AwaitReady(t, j.kind(), last, "x")
	for _, line := range writes() {
		for _, ns := range settled {
			if strings.Contains(line, "/namespaces/"+ns+"/") {
				t.Error("a settled instance was written:", line)
			}
		}
	}
}

func (j drawnGraph) apply(t *testing.T, w *testkit.Cluster, ns string, spec map[string]any) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(j.kind())
	o.SetNamespace(ns)
	o.SetName("x")
	if _, err := w.TryApply(t, o); err != nil {
		t.Fatal(err)
	}
}

// patience is how often a wait may take as long as waits do: controllers that were started
// again compile all that there is first.
const patience = 3

// awaitReadyOrCrash waits until the instance is ready, or the controllers have crashed.
func awaitReadyOrCrash(ctx context.Context, crashed <-chan struct{}, of dynamic.ResourceInterface) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-crashed:
			cancel()
		case <-ctx.Done():
		}
	}()
	var err error
	for range patience {
		err = testkit.AwaitList(ctx, of, metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
			for _, o := range objects {
				return testkit.IsReady(o)
			}
			return errors.New("there is none")
		})
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	select {
	case <-crashed:
		return nil
	default:
		return err
	}
}

// outcome describes objects without what differs between instances.
func (j drawnGraph) outcome(objects ...*unstructured.Unstructured) []string {
	var out []string
	for _, o := range objects {
		labels, annotations := o.GetLabels(), o.GetAnnotations()
		for _, own := range []string{"kro.run/instance-id", "kro.run/instance-namespace", "applyset.kubernetes.io/part-of", "applyset.kubernetes.io/id"} {
			delete(labels, own)
		}
		delete(annotations, "internal.kro.run/applyset-inventory-hash")
		delete(annotations, v1alpha1.AppliedAnnotation)
		delete(annotations, v1alpha1.SignatureAnnotation)
		out = append(out, fmt.Sprintf("%s %s labels=%v annotations=%v data=%v spec=%v finalizers=%v going=%t status=%v", o.GetKind(), o.GetName(),
			labels, annotations, o.Object["data"], o.Object["spec"], o.GetFinalizers(), o.GetDeletionTimestamp() != nil, statusWithoutTimes(o)))
	}
	slices.Sort(out)
	return out
}

func (j drawnGraph) children(t *testing.T, w *testkit.Cluster, ns string) []*unstructured.Unstructured {
	t.Helper()
	list := w.List(t, suite.ConfigMap, ns, "kro.run/owned")
	var out []*unstructured.Unstructured
	for i := range list {
		out = append(out, &list[i])
	}
	return out
}

// drawGraph draws a definition whose nodes read the spec and nodes before them, alone and
// by the item, and are left out by conditions, and specs for an instance of it.
func drawGraph(t *rapid.T, kind string) drawnGraph {
	d := drawing{T: t, status: map[string]any{}}
	for range rapid.IntRange(2, 6).Draw(t, "nodes") {
		d.node()
	}
	j := drawnGraph{definition: map[string]any{
		"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
		"metadata": map[string]any{"name": strings.ToLower(kind)},
		"spec": map[string]any{
			"schema": map[string]any{
				"apiVersion": "v1alpha1", "kind": kind, "group": "sweep.example.com",
				"spec":   map[string]any{"flag": "boolean", "count": "integer", "word": "string", "list": "[]string"},
				"status": d.status,
			},
			"resources": d.resources,
		},
	}}
	specs := rapid.SliceOfN(rapid.Custom(drawSpec), 2, 3).Draw(t, "specs")
	j.specs = append(specs, specs[0])
	j.crashes = rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 7, 9}), len(j.specs), len(j.specs)).Draw(t, "crashes")
	return j
}

func drawSpec(t *rapid.T) map[string]any {
	var list []any
	for _, item := range []string{"u", "v", "w"} {
		if rapid.Bool().Draw(t, item) {
			list = append(list, item)
		}
	}
	if rapid.Bool().Draw(t, "the other way round") {
		slices.Reverse(list)
	}
	return map[string]any{
		"flag": rapid.Bool().Draw(t, "flag"), "count": rapid.Int64Range(0, 3).Draw(t, "count"),
		"word": rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "word"), "list": append([]any{}, list...),
	}
}

// drawing is a definition on its way.
type drawing struct {
	*rapid.T
	resources []any
	// single are nodes of one object, several are collections, and variables are values.
	single, several, variables []string
	status                     map[string]any
}

// read are expressions for texts that other nodes have.
func (d *drawing) read() (values []string) {
	for _, other := range d.single {
		values = append(values, "${"+other+".data.a}")
	}
	for _, other := range d.several {
		values = append(values, "${string(size("+other+"))}", "${"+other+`.map(o, o.data.a).join(",")}`)
	}
	for _, other := range d.variables {
		values = append(values, "${"+other+".text}", "${"+other+`.list.join("+")}`)
	}
	return values
}

func (d *drawing) variable(id string) {
	texts := append([]string{"plain", "${schema.spec.word}"}, d.read()...)
	d.resources = append(d.resources, map[string]any{"id": id, "value": map[string]any{
		"text": rapid.SampledFrom(texts).Draw(d.T, id+" text"),
		"list": "${schema.spec.list}",
	}})
	d.variables = append(d.variables, id)
}

func (d *drawing) node() {
	id := fmt.Sprintf("n%d", len(d.resources))
	if rapid.IntRange(0, 4).Draw(d.T, id+" is a variable") == 0 {
		d.variable(id)
		return
	}
	resource := map[string]any{"id": id}
	name := "${schema.metadata.name}-" + id
	var items []string
	collection := rapid.IntRange(0, 2).Draw(d.T, id+" is a collection") == 0
	if collection {
		over := []string{"${schema.spec.list}", "${lists.range(schema.spec.count).map(i, string(i))}"}
		for _, other := range d.several {
			over = append(over, "${"+other+`.map(o, o.data.key + "0")}`)
		}
		resource["forEach"] = []any{map[string]any{"e": rapid.SampledFrom(over).Draw(d.T, id+" is over")}}
		name += "-${e}"
		items = []string{"${e}"}
	}
	conditions := []string{"", "", "", "${schema.spec.flag}", "${schema.spec.count > 1}", `${schema.spec.word != "b"}`}
	for _, other := range d.single {
		conditions = append(conditions, "${"+other+`.data.a != "a"}`)
	}
	if collection {
		conditions = append(conditions, `${e != "v"}`)
	}
	if when := rapid.SampledFrom(conditions).Draw(d.T, id+" is there when"); when != "" {
		resource["includeWhen"] = []any{when}
	}
	values := append(items, "plain", "${schema.spec.word}", "${string(schema.spec.count)}", "${schema.spec.flag ? \"yes\" : \"no\"}", "of ${schema.spec.word} and ${string(size(schema.spec.list))}")
	values = append(values, d.read()...)
	data := map[string]any{"a": rapid.SampledFrom(values).Draw(d.T, id+" a")}
	if rapid.Bool().Draw(d.T, id+" has b") {
		data["b"] = rapid.SampledFrom(values).Draw(d.T, id+" b")
	}
	if collection {
		data["key"] = "${e}"
	}
	resource["template"] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": data}
	if rapid.Bool().Draw(d.T, id+" is told") {
		d.status["of"+id] = map[bool]string{true: "${" + id + ".map(o, o.data.a)}", false: "${" + id + ".data.a}"}[collection]
	}
	d.resources = append(d.resources, resource)
	if collection {
		d.several = append(d.several, id)
	} else {
		d.single = append(d.single, id)
	}
}
