package reference

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/crd"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	specschema "github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

// began is when all examples happen.
var began = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// runGraph compiles a definition and composes instances by it. Objects come into being as an API
// server would make them; nothing becomes of them but what the example says.
func runGraph(t *testing.T, kinds *kinds, e example) result {
	t.Helper()
	out := result{}
	first := e.blocks[0]
	var d v1alpha1.ResourceGraphDefinition
	decode(t, first.at(e.page), first.text(e.page), &d)
	known := kinds.of(t, graph.UsedKinds(&d.Spec))
	g, problems := graph.Compile(&d.Spec, known)
	rest := e.blocks[1:]
	if len(rest) > 0 && rest[0].info == "text problems" {
		if problems == nil {
			t.Fatalf("%s: nothing is wrong with the definition", first.at(e.page))
		}
		out[rest[0]] = problems.Err().Error() + "\n"
		return out
	}
	if problems != nil {
		t.Fatalf("%s: %v", first.at(e.page), problems.Err())
	}
	kinds.serve(g, &d)
	c := &cluster{graph: g, owned: map[string][]*unstructured.Unstructured{}}
	for _, b := range rest {
		text := b.text(e.page)
		switch b.info {
		case "yaml instance":
			c.instance = objectOf(t, b.at(e.page), text)
			c.definition = object.Definition{Name: d.Name, Namespace: d.Namespace}
			c.setDefaults(t)
			c.settle(t)
		case "yaml cluster":
			for _, doc := range documents(text) {
				c.put(objectOf(t, b.at(e.page), doc))
			}
			c.settle(t)
		case "yaml objects":
			out[b] = encode(t, c.desiredObjects()...)
		case "yaml status":
			out[b] = c.statusLike(t, text)
		case "yaml openapi":
			out[b] = encode(t, withoutEngine(t, g))
		default:
			t.Fatalf("%s: %q has no meaning after a definition", b.at(e.page), b.info)
		}
	}
	return out
}

// withoutEngine is the schema of a kind's spec, and of the status fields of its author.
func withoutEngine(t *testing.T, g *graph.Graph) map[string]any {
	return map[string]any{"spec": plain(t, g.Spec.DeepCopy()), "status": plain(t, g.Status.DeepCopy())}
}

func plain(t *testing.T, v any) any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// objectOf reads an object whose integers are int64, as a cache holds it.
func objectOf(t *testing.T, at, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	return &unstructured.Unstructured{Object: out}
}

// cluster is an instance with what there is around it.
type cluster struct {
	graph      *graph.Graph
	definition object.Definition
	instance   *unstructured.Unstructured
	owned      map[string][]*unstructured.Unstructured
	others     []*unstructured.Unstructured

	desired plan.Desired
	plan    plan.Plan
	status  map[string]any
}

// setDefaults does for the instance what the API server does.
func (c *cluster) setDefaults(t *testing.T) {
	t.Helper()
	gvk := c.instance.GroupVersionKind()
	if gvk != c.graph.Kind {
		t.Fatalf("the definition serves %v, and the instance is of %v", c.graph.Kind, gvk)
	}
	if c.graph.Namespaced && c.instance.GetNamespace() == "" {
		c.instance.SetNamespace("default")
	}
	c.instance.SetUID("instance")
	c.instance.SetGeneration(1)
	defaulted(t, c.graph.Spec.DeepCopy(), c.instance)
}

// put makes another client's object, or what the example says of one of the instance's own: its
// metadata, and its status.
func (c *cluster) put(o *unstructured.Unstructured) {
	if o.GetNamespace() == "" && c.graph.Namespaced {
		o.SetNamespace(c.instance.GetNamespace())
	}
	for _, owned := range c.owned {
		for i, own := range owned {
			if object.KeyOf(own) != object.KeyOf(o) {
				continue
			}
			changed := own.DeepCopy()
			if status, ok := o.Object["status"]; ok {
				changed.Object["status"] = status
			}
			if g := o.GetGeneration(); g > 0 {
				changed.SetGeneration(g)
			}
			owned[i] = changed
			return
		}
	}
	c.others = append(slices.DeleteFunc(c.others, func(other *unstructured.Unstructured) bool { return object.KeyOf(other) == object.KeyOf(o) }), o)
}

// mostPasses is how often an example is reconciled at most.
const mostPasses = 30

// settle reconciles until nothing is to be written.
func (c *cluster) settle(t *testing.T) {
	t.Helper()
	owner := inventory.OwnerOf(c.instance, c.definition, "v1").Recognizing(signing.Keys(), c.instance, time.Time{})
	for range mostPasses {
		facts := plan.Facts{Instance: c.instance, Now: began, Owned: c.owned, External: map[plan.Need]plan.Lookup{}, Waits: map[plan.WaitKey]time.Time{}}
		c.desired = c.compose(t, &facts)
		c.plan = plan.Compute(c.desired, facts, plan.History{}, owner, v1alpha1.ChildManager)
		wrote := c.apply(t)
		c.report(facts)
		if !wrote {
			return
		}
	}
	t.Fatal("it does not come to rest")
}

// compose composes until nothing new has to be read.
func (c *cluster) compose(t *testing.T, facts *plan.Facts) plan.Desired {
	t.Helper()
	for {
		desired, more := c.graph.Compose(*facts), false
		for _, need := range desired.Needs {
			if _, looked := facts.External[need]; looked {
				continue
			}
			more = true
			look := plan.Lookup{}
			for _, o := range c.others {
				if found := c.find(t, need, o); found && need.Multiple {
					look.Objects = append(look.Objects, o)
				} else if found {
					look.Object = o
				}
			}
			facts.External[need] = look
		}
		if !more {
			return desired
		}
	}
}

func (c *cluster) find(t *testing.T, need plan.Need, o *unstructured.Unstructured) bool {
	t.Helper()
	if need.Kind != o.GroupVersionKind() || need.Namespace != "" && need.Namespace != o.GetNamespace() {
		return false
	}
	if !need.Multiple {
		return need.Name == o.GetName()
	}
	selector, err := labels.Parse(need.Selector)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(labels.Set(o.GetLabels()))
}

// apply does what the plan says, and reports whether that was anything.
func (c *cluster) apply(t *testing.T) bool {
	t.Helper()
	wrote := false
	for _, step := range c.plan.Steps {
		if !step.Action.Applies() {
			continue
		}
		wrote = true
		stored := applied(t, step.Object)
		stored.SetUID(types.UID(object.KeyOf(stored).String()))
		stored.SetGeneration(1)
		node := inventory.Node(stored)
		if current := step.Current; current != nil {
			stored.SetGeneration(current.GetGeneration() + 1)
			if status, ok := current.Object["status"]; ok {
				stored.Object["status"] = status
			}
			for id, owned := range c.owned {
				c.owned[id] = slices.DeleteFunc(owned, func(o *unstructured.Unstructured) bool { return o.GetUID() == current.GetUID() })
			}
		}
		c.owned[node] = append(c.owned[node], stored)
	}
	for _, gone := range c.plan.Prune {
		wrote = true
		for id, owned := range c.owned {
			c.owned[id] = slices.DeleteFunc(owned, func(o *unstructured.Unstructured) bool { return o.GetUID() == gone.GetUID() })
		}
	}
	return wrote
}

// applied is an object of which the engine's manager owns all fields.
func applied(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	out := o.DeepCopy()
	raw, err := json.Marshal(fieldSet(out.Object))
	if err != nil {
		t.Fatal(err)
	}
	out.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.ChildManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: raw},
	}})
	return out
}

func fieldSet(value any) map[string]any {
	out := map[string]any{}
	if m, ok := value.(map[string]any); ok {
		for key, v := range m {
			out["f:"+key] = fieldSet(v)
		}
	}
	return out
}

// report makes the instance's status.
func (c *cluster) report(facts plan.Facts) {
	summary := plan.Summarize(c.plan, began)
	at := instance.Moment{Now: began, Generation: c.instance.GetGeneration()}
	own := instance.Graphs{}.LiveConditions(nil, c.desired, summary, at)
	said := report.Status{State: summary.State, Conditions: own, Problems: plan.Problems(c.plan.Steps, nil, began)}
	if c.desired.AuthorConditions != nil {
		said.Conditions = nil
		for _, one := range c.desired.AuthorConditions(own).Conditions {
			said.Conditions = said.Conditions.Mark(one, facts.Now)
		}
		said.Conditions = slices.Clip(append(condition.Set{}, said.Conditions...))
	}
	for _, w := range summary.Waits {
		said.Waiting = append(said.Waiting, report.Waiting{Node: w.Node, Reason: string(w.Reason), On: w.On, Since: report.At(began), Attempts: int64(w.Attempts(began))})
	}
	for _, step := range c.plan.Steps {
		if l := step.SkipCause; l != nil {
			said.Skipped = append(said.Skipped, report.Skipped{Node: step.Node, By: l.By, Condition: l.Condition, Inputs: l.Inputs})
		}
	}
	room := report.AllFields
	room.Skipped = true
	c.status = said.Render(c.desired.Status, room)
}

// desiredObjects are the objects that the instance wants, in the order of application, as their
// templates make them.
func (c *cluster) desiredObjects() []any {
	var out []any
	for _, n := range c.desired.Nodes {
		if n.Object != nil && !n.External && len(n.Waits) == 0 {
			out = append(out, n.Object.Object)
		}
	}
	return out
}

// statusLike is the status, as far as the page shows it: those of its fields that are on the
// page, and of conditions the types that are.
func (c *cluster) statusLike(t *testing.T, shown string) string {
	t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(shown), &fields); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value, there := c.status[name]
		if !there {
			value = "(nothing)"
		}
		if list, ok := value.([]any); ok && name == report.ConditionsField {
			value = conditionsLike(list, fields[name])
		}
		out[name] = value
	}
	return encode(t, out)
}

// conditionsLike are the conditions whose types are on the page, without what the page leaves out.
func conditionsLike(all []any, shown any) []any {
	list, _ := shown.([]any)
	var out []any
	for _, one := range all {
		c, _ := one.(map[string]any)
		for _, s := range list {
			like, _ := s.(map[string]any)
			if fmt.Sprint(like["type"]) != fmt.Sprint(c["type"]) {
				continue
			}
			c = maps.Clone(c)
			maps.DeleteFunc(c, func(key string, _ any) bool { _, on := like[key]; return !on })
			out = append(out, c)
		}
	}
	if len(list) == 0 {
		return all
	}
	return out
}

// serve makes the kind of a definition known to those after it on the page.
func (k *kinds) serve(g *graph.Graph, d *v1alpha1.ResourceGraphDefinition) {
	c := kind.For(g, d.Spec.Schema, object.Definition{Name: d.Name}, kind.Options{Version: "v1"})
	k.known[g.Kind] = object.KindInfo{
		Schema:     crd.OpenAPI(c.Spec.Versions[0].Schema.OpenAPIV3Schema),
		Namespaced: g.Namespaced, ServedByDefinition: true, NameRule: object.Subdomain,
	}
}

// runSchema turns a spec in SimpleSchema into the schema of a kind.
func runSchema(t *testing.T, e example) result {
	t.Helper()
	first := e.blocks[0]
	var in struct {
		Spec  map[string]any `json:"spec"`
		Types map[string]any `json:"types,omitempty"`
	}
	decode(t, first.at(e.page), first.text(e.page), &in)
	s, problems := specschema.Parse(in.Spec, "spec.schema.spec", specschema.Options{Types: in.Types, TypesPath: "spec.schema.types"})
	if problems == nil {
		for _, wrong := range structuralschema.ValidateStructural(nil, structural(t, s)) {
			t.Errorf("%s: no API server would take the schema: %v", first.at(e.page), wrong)
		}
	}
	out := result{}
	for _, b := range e.blocks[1:] {
		switch {
		case b.info == "text problems" && problems != nil:
			out[b] = problems.Err().Error() + "\n"
		case b.info == "yaml openapi" && problems == nil:
			var shown map[string]any
			decode(t, b.at(e.page), b.text(e.page), &shown)
			whole, _ := plain(t, s).(map[string]any)
			if _, all := shown["type"]; !all {
				whole, _ = whole["properties"].(map[string]any)
			}
			out[b] = encode(t, whole)
		default:
			t.Fatalf("%s: %q does not come of it: %v", b.at(e.page), b.info, strings.TrimSpace(fmt.Sprint(problems.Err())))
		}
	}
	return out
}
