package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/simulation"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// resource is a resource of a drawn definition.
type resource struct {
	name, value string // expressions
	collection  bool
	conditional bool
	dependsOn   string
	orphaned    bool
	nested      bool // its template is an instance of another definition
	tolerant    bool // others may change its value
}

// definition is a drawn definition, and instances of it.
type definition struct {
	random    *rand.Rand
	resources map[string]*resource
	instances map[string]map[string]any
	made      int
	// leaf is what the nested definition writes, and composed what the composition of composites does.
	leaf, composed string
	composites     map[string]string
}

func newDefinition(seed uint64) *definition {
	d := &definition{random: rand.New(rand.NewPCG(seed, 1)), resources: map[string]*resource{}, instances: map[string]map[string]any{}, leaf: "leaf", composed: "composed", composites: map[string]string{"box": "small"}}
	for range 3 {
		d.addResource()
	}
	for _, name := range []string{"one", "two", "three"} {
		d.instances[name] = map[string]any{"size": int64(1), "wanted": d.random.IntN(2) == 0, "items": []any{"a", "b"}}
	}
	return d
}

func (d *definition) ids() []string {
	out := make([]string, 0, len(d.resources))
	for id := range d.resources {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (d *definition) addResource() {
	id := fmt.Sprintf("r%d", d.made)
	d.made++
	r := &resource{name: "first", value: "${string(schema.spec.size)}", collection: d.random.IntN(4) == 0, conditional: d.random.IntN(3) == 0, orphaned: d.random.IntN(5) == 0}
	if ids := d.ids(); len(ids) > 0 {
		if on := ids[d.random.IntN(len(ids))]; !d.resources[on].collection && !d.resources[on].conditional && !r.collection {
			r.dependsOn = on
		}
	}
	if r.orphaned { // once it is orphaned, its name is taken
		r.collection, r.conditional = false, false
	}
	r.nested = !r.orphaned && d.random.IntN(3) == 0
	r.tolerant = !r.nested && d.random.IntN(3) == 0
	d.resources[id] = r
}

// change changes something at random.
func (d *definition) change() {
	ids := d.ids()
	one := ids[d.random.IntN(len(ids))]
	switch d.random.IntN(11) {
	case 0:
		d.addResource()
	case 1: // a resource that no other reads
		if len(ids) > 2 && !slices.ContainsFunc(ids, func(id string) bool { return d.resources[id].dependsOn == one }) {
			delete(d.resources, one)
		}
	case 2:
		d.resources[one].value = fmt.Sprintf("v%d-${string(schema.spec.size)}", d.random.IntN(100))
	case 3: // objects get other names: they are created, and the former ones pruned
		d.made++
		d.resources[one].name = fmt.Sprintf("n%d", d.made)
	case 4:
		d.instances["one"]["size"] = int64(d.random.IntN(100))
	case 5:
		d.instances["two"]["wanted"] = !d.instances["two"]["wanted"].(bool)
	case 6:
		d.instances["three"]["items"] = []any{"a", fmt.Sprintf("c%d", d.random.IntN(10))}
	case 7:
		name := fmt.Sprintf("more%d", d.random.IntN(100))
		d.instances[name] = map[string]any{"size": int64(d.random.IntN(100)), "wanted": true, "items": []any{}}
	case 8:
		d.leaf = fmt.Sprintf("leaf%d", d.random.IntN(100))
	case 9:
		d.composed = fmt.Sprintf("composed%d", d.random.IntN(100))
	case 10:
		d.composites[fmt.Sprintf("box%d", d.random.IntN(2))] = fmt.Sprintf("size%d", d.random.IntN(100))
	}
}

// files are the objects of the definition and its instances.
func (d *definition) files(t *testing.T, s suite.Suite) []*unstructured.Unstructured {
	var resources []any
	for _, id := range d.ids() {
		r := d.resources[id]
		name := "${schema.metadata.name}-" + id + "-" + r.name
		data := map[string]any{"value": r.value}
		one := map[string]any{"id": id}
		if r.collection {
			one["forEach"] = []any{map[string]any{"entry": "${schema.spec.items}"}}
			name += "-${entry}"
		}
		if r.conditional {
			one["includeWhen"] = []any{"${schema.spec.wanted}"}
		}
		if r.dependsOn != "" {
			data["other"] = "${" + r.dependsOn + ".data.value}"
			if d.resources[r.dependsOn].nested {
				data["other"] = "${" + r.dependsOn + ".status.value}"
			}
		}
		if r.orphaned {
			one["deletionPolicy"] = "Orphan"
		}
		if r.tolerant {
			one["driftPolicy"] = "Ignore"
		}
		one["template"] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": data}
		if r.nested {
			one["template"] = map[string]any{"apiVersion": s.Group + "/v1alpha1", "kind": "Leaf", "metadata": map[string]any{"name": name}, "spec": data}
		}
		resources = append(resources, one)
	}
	rgd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.ResourceGraphDefinitionKind, "metadata": map[string]any{"name": s.Name("drawn")},
		"spec": map[string]any{
			"schema":    map[string]any{"apiVersion": "v1alpha1", "group": s.Group, "kind": "Drawn", "spec": map[string]any{"size": "integer", "wanted": "boolean", "items": "[]string"}},
			"resources": resources,
		},
	}}
	out := d.otherDefinitions(t, s)
	out = append(out, rgd)
	names := make([]string, 0, len(d.instances))
	for name := range d.instances {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out = append(out, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": s.Group + "/v1alpha1", "kind": "Drawn", "metadata": map[string]any{"name": name, "namespace": s.NS}, "spec": d.instances[name],
		}})
	}
	return out
}

// otherDefinitions are the nested definition, a composition of a built-in function and its composites.
func (d *definition) otherDefinitions(t *testing.T, s suite.Suite) []*unstructured.Unstructured {
	t.Helper()
	leaf := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.ResourceGraphDefinitionKind, "metadata": map[string]any{"name": s.Name("leaf")},
		"spec": map[string]any{
			"schema": map[string]any{
				"apiVersion": "v1alpha1", "group": s.Group, "kind": "Leaf", "spec": map[string]any{"value": "string", "other": "string"},
				"status": map[string]any{"value": "${config.data.value}"},
			},
			"resources": []any{map[string]any{"id": "config", "template": map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "${schema.metadata.name}-leaf"},
				"data": map[string]any{"value": d.leaf + "-${schema.spec.value}"},
			}}},
		},
	}}
	out := []*unstructured.Unstructured{leaf}
	for _, o := range testkit.Parse(t, s.Expand(strings.NewReplacer("KEY", "value", "VALUE", d.composed).Replace(compositeFiles))) {
		if o.GetKind() != "Box" {
			out = append(out, o)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.composites)) {
		out = append(out, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": s.Group + "/v1", "kind": "Box", "metadata": map[string]any{"name": name, "namespace": s.NS}, "spec": map[string]any{"size": d.composites[name]},
		}})
	}
	return out
}

// planOf plans objects.
func planOf(t *testing.T, s suite.Suite, objects []*unstructured.Unstructured) preview.Plan {
	t.Helper()
	return planAgainst(t, s, "", objects)
}

// planAgainst plans objects, compared with a revision.
func planAgainst(t *testing.T, s suite.Suite, revision string, objects []*unstructured.Unstructured) preview.Plan {
	t.Helper()
	p, err := tryPlan(t, s, revision, objects)
	if err != nil {
		t.Fatal(err)
	}
	if p.Incomplete {
		t.Fatal("the plan is incomplete")
	}
	return p
}

func tryPlan(t *testing.T, s suite.Suite, revision string, objects []*unstructured.Unstructured) (preview.Plan, error) {
	t.Helper()
	s.AwaitControllers(t) // they change the cluster while they start
	applied := make([]simulation.Applied, len(objects))
	for i, o := range objects {
		applied[i] = simulation.Applied{Object: o, Source: "drawn.yaml"}
	}
	return simulation.Preview(t.Context(), server.ManagerOptions{
		Options: manager.Options{Name: "espalier", Version: "test", Config: s.Config, Log: logr.Discard()}, Settings: server.Settings{Workers: 4},
	}, simulation.PreviewOptions{Objects: applied, Namespace: s.NS, FieldManager: "test", Against: revision, Timeout: testkit.Timeout})
}

// apply applies objects as the plan does.
func apply(t *testing.T, s suite.Suite, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		testkit.Poll(t, "apply "+o.GetName(), func() bool { // the API server takes a moment to serve a new schema
			_, err := s.TryApply(t, o)
			return err == nil
		})
		if o.GetKind() == v1alpha1.ResourceGraphDefinitionKind {
			s.AwaitDefinitions(t, strings.TrimPrefix(o.GetName(), s.Name("")))
		}
	}
}

// versions are those of the kinds that instances consist of.
var versions = map[string]string{"ConfigMap": "v1", "Leaf": "v1alpha1"}

// edit has another manager change the value of an object whose definition ignores that.
func (d *definition) edit(t *testing.T, s suite.Suite) {
	t.Helper()
	for _, id := range d.ids() {
		if !d.resources[id].tolerant {
			continue
		}
		objects := snapshot(t, s)
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			o := objects[key]
			if o.GetLabels()["kro.run/node-id"] != id || d.random.IntN(2) == 0 {
				continue
			}
			patch := fmt.Sprintf(`{"data": {"value": "edited%d"}}`, d.random.IntN(100))
			if _, err := s.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(s.NS).Patch(t.Context(), o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
				t.Fatalf("edit %s: %v", key, err)
			}
		}
	}
}

// awaitPlanned waits until the objects of a plan are written.
func awaitPlanned(t *testing.T, s suite.Suite, p preview.Plan) {
	t.Helper()
	for _, i := range p.Instances {
		for _, o := range i.Objects {
			testkit.Poll(t, string(o.Action)+" "+o.String(), func() bool {
				is := s.Get(t, schema.GroupVersionKind{Group: o.Group, Version: versions[o.Kind], Kind: o.Kind}, o.Namespace, o.Name)
				switch {
				case o.Action == preview.Delete:
					return is == nil
				case o.Action == preview.Create:
					return is != nil
				case o.Action == preview.Orphan:
					return is != nil && is.GetLabels()[v1alpha1.ApplySetPartOfLabel] == ""
				}
				return is != nil && !slices.ContainsFunc(o.Fields, func(f preview.FieldChange) bool {
					value, _, _ := unstructured.NestedString(is.Object, strings.Split(f.Path, ".")...)
					wanted := ""
					return !f.Removed && json.Unmarshal(f.After, &wanted) == nil && value != wanted
				})
			})
		}
	}
}

// snapshot is the data of the ConfigMaps of the namespace, with their UIDs and revisions.
func snapshot(t *testing.T, s suite.Suite) map[string]*unstructured.Unstructured {
	t.Helper()
	out := map[string]*unstructured.Unstructured{}
	list := s.List(t, configMap, s.NS, "")
	for i := range list {
		out[object.KeyOf(&list[i]).String()] = &list[i]
	}
	return out
}

// happened says what has happened between two snapshots, as a plan would.
func happened(before, after map[string]*unstructured.Unstructured) []string {
	var out []string
	for key, o := range after {
		was, there := before[key]
		switch {
		case !there:
			out = append(out, "Create "+key+" "+dataOf(o))
		case was.GetUID() != o.GetUID():
			out = append(out, "Replace "+key+" "+dataOf(o))
		case was.GetResourceVersion() == o.GetResourceVersion():
		case was.GetLabels()[v1alpha1.ApplySetPartOfLabel] != "" && o.GetLabels()[v1alpha1.ApplySetPartOfLabel] == "":
			out = append(out, "Orphan "+key)
		default:
			out = append(out, "Change "+key+" "+dataChange(was, o))
		}
	}
	for key := range before {
		if _, there := after[key]; !there {
			out = append(out, "Delete "+key)
		}
	}
	slices.Sort(out)
	return out
}

func dataOf(o *unstructured.Unstructured) string {
	raw, err := json.Marshal(o.Object["data"])
	if err != nil {
		panic(err) // it came from JSON
	}
	return string(raw)
}

// dataChange names the fields that differ.
func dataChange(before, after *unstructured.Unstructured) string {
	var out []string
	a, _, _ := unstructured.NestedStringMap(before.Object, "data")
	b, _, _ := unstructured.NestedStringMap(after.Object, "data")
	for _, key := range []string{"other", "size", "value"} {
		if a[key] != b[key] {
			out = append(out, fmt.Sprintf("data.%s=%s", key, b[key]))
		}
	}
	return strings.Join(out, " ")
}

// announced is what a plan says of ConfigMaps. Of an object that would be created the plan has no fields:
// its data are those that it then has.
func announced(p preview.Plan, after map[string]*unstructured.Unstructured) []string {
	var out []string
	for _, i := range p.Instances {
		for _, o := range i.Objects {
			if o.Kind != "ConfigMap" {
				continue
			}
			switch o.Action {
			case preview.Create, preview.Replace:
				text := string(o.Action) + " " + o.String()
				if is := after[o.String()]; is != nil {
					text += " " + dataOf(is)
				}
				out = append(out, text)
			case preview.Change:
				var fields []string
				for _, f := range o.Fields {
					if strings.HasPrefix(f.Path, "data.") {
						value := ""
						if !f.Removed && json.Unmarshal(f.After, &value) != nil {
							value = string(f.After)
						}
						fields = append(fields, f.Path+"="+value)
					}
				}
				out = append(out, "Change "+o.String()+" "+strings.Join(fields, " "))
			default:
				out = append(out, string(o.Action)+" "+o.String())
			}
		}
	}
	slices.Sort(out)
	return out
}

// TestWhatIsPlannedHappens draws definitions and instances, nested ones and composites of a built-in function
// among them, changes them at random, has somebody else change objects where that is ignored, plans the change
// and then makes it. Exactly the objects of the plan are written, and they become what it says.
func TestWhatIsPlannedHappens(t *testing.T) {
	for seed := range uint64(testkit.Size(2, 20)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := suite.NewSerial(t)
			s.AllowComposing(t, s.Group)
			d := newDefinition(seed)
			for step := range testkit.Size(3, 6) {
				if step > 0 {
					for range 1 + d.random.IntN(3) {
						d.change()
					}
					d.edit(t, s)
				}
				objects := d.files(t, s)
				before := snapshot(t, s)
				p := planOf(t, s, objects)
				if len(p.Problems) > 0 {
					t.Fatalf("seed %d, step %d: %+v", seed, step, p.Problems)
				}
				apply(t, s, objects)
				awaitPlanned(t, s, p)
				again := planOf(t, s, objects)
				if !again.IsEmpty() || len(again.Notes) > 0 {
					t.Fatalf("seed %d, step %d: once applied, the plan is not empty:\n%s", seed, step, again.Text(120))
				}
				after := snapshot(t, s)
				if diff := cmp.Diff(announced(p, after), happened(before, after)); diff != "" {
					t.Fatalf("seed %d, step %d (-planned +happened):\n%s\n%s", seed, step, diff, p.Text(120))
				}
			}
		})
	}
}
