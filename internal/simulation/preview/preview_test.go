package preview

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	o := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = o.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return o
}

// world collects the changes of a test.
type world struct {
	t *testing.T
	Input
}

func (w *world) add(before, after string) {
	w.Objects = append(w.Objects, Object{Before: parse(w.t, before), After: parse(w.t, after), Order: uint64(len(w.Objects) + 1)})
}

// app is an App with a child of a node.
func (w *world) app(name, before, after string) {
	key := object.Key{Group: "kro.run", Kind: "App", Namespace: "prod", Name: name}
	head := fmt.Sprintf("apiVersion: kro.run/v1alpha1\nkind: App\nmetadata: {name: %s, namespace: prod, uid: %s}\n", name, name)
	w.add(head+"spec: {replicas: 1}\n", head+"spec: {replicas: 1, color: red}\n")
	w.Objects[len(w.Objects)-1].Reconciled = true
	child := func(data string) string {
		if data == "" {
			return ""
		}
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-config, namespace: prod, uid: %s-config, labels: {applyset.kubernetes.io/part-of: %q}, annotations: {espalier.dev/applied: %q}}\ndata: %s\n", name, name, inventory.ApplySetID(key), data, data)
	}
	w.add(child(before), child(after))
	o := parse(w.t, child(before))
	w.decide(key, plan.Step{Node: "config", Action: plan.Update, Object: o})
}

func (w *world) decide(key object.Key, steps ...plan.Step) {
	if w.Decisions == nil {
		w.Decisions = map[object.Key]plan.Plan{}
	}
	w.Decisions[key] = plan.Plan{Steps: append(w.Decisions[key].Steps, steps...)}
}

// example has one of each action.
func example(t *testing.T) Input {
	w := &world{t: t}
	w.add(`{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: apps, uid: d}, spec: {schema: {kind: App}, resources: [{id: config, template: {data: {a: "1"}}}, {id: old, template: {}}]}}`,
		`{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: apps, uid: d}, spec: {schema: {kind: App}, resources: [{id: config, template: {data: {a: "2"}}}, {id: new, template: {kind: Secret}}]}, status: {state: Active}}`)
	w.add("", "{apiVersion: internal.kro.run/v1alpha1, kind: GraphRevision, metadata: {name: apps-r00002}}")
	for i := range 8 {
		w.app(fmt.Sprintf("web%d", i), `{size: "1", url: "http://web"}`, `{size: "2", url: "http://web", color: red}`)
	}
	w.app("shop", `{size: "3"}`, `{size: "4"}`)
	key := object.Key{Group: "kro.run", Kind: "App", Namespace: "prod", Name: "shop"}
	owned := fmt.Sprintf("namespace: prod, labels: {applyset.kubernetes.io/part-of: %q}", inventory.ApplySetID(key))
	w.add("{apiVersion: v1, kind: Secret, metadata: {name: password, uid: s, "+owned+"}, data: {password: aHVudGVyMmh1bnRlcjI=}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: password, uid: s, "+owned+"}, data: {password: bmV3bmV3bmV3bmV3}, type: Opaque}")
	w.add("{apiVersion: batch/v1, kind: Job, metadata: {name: migrate, uid: j1, "+owned+"}, spec: {template: {image: one}}}",
		"{apiVersion: batch/v1, kind: Job, metadata: {name: migrate, uid: j2, "+owned+"}, spec: {template: {image: two}}}")
	w.add("{apiVersion: v1, kind: Service, metadata: {name: old, uid: o, "+owned+"}}", "")
	w.add("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, uid: p, "+owned+"}}", "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, uid: p, namespace: prod}}")
	w.add("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, uid: w, "+owned+"}, spec: {args: [--dsn=postgres://app:hunter2hunter2@db/shop, --verbose], env: [{name: A, value: hunter2hunter2}, {name: B, value: x}]}}",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, uid: w, "+owned+"}, spec: {args: [--dsn=postgres://app:other@db/shop, --quiet], env: [{name: B, value: z}, {name: C, value: z}]}}")
	w.add("{apiVersion: v1, kind: ConfigMap, metadata: {name: token, uid: t, "+owned+"}, data: {token: derived}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: token, uid: t, "+owned+"}, data: {token: differently}}")
	w.add("{apiVersion: v1, kind: ConfigMap, metadata: {name: records, uid: r, "+owned+"}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: records, uid: r, "+owned+", annotations: {espalier.dev/depends-on: web}}}")
	w.add("{apiVersion: v1, kind: ConfigMap, metadata: {name: same, uid: q, "+owned+"}, status: {a: 1}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: same, uid: q, "+owned+"}, status: {a: 2}}")
	w.decide(key,
		plan.Step{Node: "password", Object: parse(t, "{apiVersion: v1, kind: Secret, metadata: {name: password, namespace: prod}}")},
		plan.Step{Node: "token", Sensitive: true, Object: parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: token, namespace: prod}}")},
		plan.Step{Node: "ingress", Action: plan.Defer, Waits: []plan.Wait{{Node: "ingress", Reason: plan.WaitingForField, On: "web.status.address"}, {Node: "ingress", Reason: plan.WaitingForField, On: "web.status.address"}}},
		plan.Step{Node: "zones[b]", Action: plan.Defer, Problem: plan.Problem{Reason: plan.NotPropagated, Message: "waits until zones[a] is up to date and ready"}},
		plan.Step{Node: "zones[c]", Action: plan.Defer, Problem: plan.Problem{Reason: plan.NotPropagated, Message: "waits until zones[a] is up to date and ready"}},
		plan.Step{Node: "gate", Action: plan.Defer, Problem: plan.Problem{Reason: plan.NotPropagated, Message: "propagateWhen does not let the object change: !schema.spec.frozen is false"}},
	)
	for i := range w.Objects {
		if o := &w.Objects[i]; o.After != nil && o.After.GetName() == "shop" {
			o.After.Object["status"] = map[string]any{"problems": []any{
				map[string]any{"node": "cert", "reason": "NotOwned", "message": "Secret prod/cert is somebody else's", "since": "2026-01-01T00:00:00Z"},
				map[string]any{"node": "config", "reason": "NotReady", "message": "it has no address", "since": "2026-01-01T00:00:00Z"},
			}}
		}
	}
	w.Secrets = []string{"hunter2hunter2", "true", "aHVudGVyMmh1bnRlcjI="}
	w.Problems = []Problem{{Object: "ConfigMap prod/x", Reason: "Refused", Message: "admission webhook <b>no</b> denied the request", Remedy: "correct it in x.yaml"}}
	w.Notes = []string{"Secrets in [other] cannot be read."}
	return w.Input
}

func TestPlansAreReadable(t *testing.T) {
	p := New(example(t))
	for _, width := range []int{80, 120} {
		text := p.Text(width)
		for line := range strings.Lines(text) {
			if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > width {
				t.Errorf("longer than %d: %s", width, line)
			}
		}
		golden.Compare(t, fmt.Sprintf("testdata/plan-%d.txt", width), text)
	}
	golden.Compare(t, "testdata/plan.md", p.Markdown())
	golden.Compare(t, "testdata/plan.yaml", golden.YAML(t, p))
}

func TestObjectsThatChangeAlikeAreListedAsOne(t *testing.T) {
	t.Parallel()
	w := &world{t: t}
	for _, one := range []struct{ name, image string }{{"a", "2"}, {"b", "2"}, {"c", "3"}, {"d", "2"}} {
		const head = "{apiVersion: v1, kind: Pod, metadata: {name: %s, uid: x}, spec: {image: %q}}"
		w.add(fmt.Sprintf(head, one.name, "1"), fmt.Sprintf(head, one.name, one.image))
	}
	w.add("", "{apiVersion: v1, kind: Pod, metadata: {name: e}}")
	w.add("", "{apiVersion: v1, kind: Pod, metadata: {name: f}}")
	const want = `~ Pod a, Pod b: change
    spec.image: "1" → "2"
~ Pod c: change
    spec.image: "1" → "3"
~ Pod d: change
    spec.image: "1" → "2"
+ Pod e: create
+ Pod f: create

Plan: 2 created, 4 changed. Nothing was written.
`
	if diff := cmp.Diff(want, New(w.Input).Text(80)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEveryErrorOfADefinitionIsListed is about a definition with more errors than a message of another problem has room for.
func TestEveryErrorOfADefinitionIsListed(t *testing.T) {
	var all []string
	for i := range 6 {
		all = append(all, fmt.Sprintf("spec.resources[%d].template.metadata.name: in \"schema.spec.nam\" at 13: undefined field 'nam' in schema.spec; did you mean \"name\"?", i))
	}
	definition := parse(t, "{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: other}}")
	definition.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "GraphAccepted", "status": "False", "reason": "InvalidResourceGraph", "message": "failed to build resourcegraphdefinition: " + strings.Join(all, "\n"),
	}}}
	p := New(Input{Objects: []Object{{After: definition, Reconciled: true}}})
	golden.Compare(t, "testdata/invalid.txt", p.Text(80))
	golden.Compare(t, "testdata/invalid.md", p.Markdown())
	for format, text := range map[string]string{"text": p.Text(0), "YAML": p.Problems[0].Message} {
		for _, want := range all {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", format, want, text)
			}
		}
	}
}

func TestADefinitionThatIsInvalidAlreadyHasItsOtherErrorsListed(t *testing.T) {
	invalid := func(message string) *unstructured.Unstructured {
		o := parse(t, "{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: other, uid: a}}")
		o.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "GraphAccepted", "status": "False", "reason": "InvalidResourceGraph", "message": message}}}
		return o
	}
	for name, tc := range map[string]struct {
		before, after string
		want          int
	}{
		"the same errors": {"spec.a: is required", "spec.a: is required", 0},
		"another error":   {"spec.a: is required", "spec.b: is required", 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(Input{Objects: []Object{{Before: invalid(tc.before), After: invalid(tc.after), Reconciled: true}}})
			if len(p.Problems) != tc.want || p.Summary.Problems != tc.want {
				t.Errorf("got %v, want %d", p.Problems, tc.want)
			}
		})
	}
}

func TestValuesOfSecretsAreHiddenInEveryFormat(t *testing.T) {
	p := New(example(t))
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for format, text := range map[string]string{"text": p.Text(80), "Markdown": p.Markdown(), "JSON": string(raw)} {
		for _, secret := range []string{"hunter2", "aHVudGVyMmh1bnRlcjI", "bmV3bmV3", "derived", "differently"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q:\n%s", format, secret, text)
			}
		}
	}
}

func TestAnEmptyPlanSaysSo(t *testing.T) {
	p := New(Input{Objects: []Object{{
		Before: parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, resourceVersion: '1'}}"),
		After:  parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, resourceVersion: '2'}}"),
	}}})
	if got := p.Text(80); !p.IsEmpty() || got != "Nothing would change.\n" {
		t.Errorf("got %q", got)
	}
	if got := New(Input{Incomplete: true}).Text(0); !strings.Contains(got, "Raise --wait") || strings.Contains(got, "Nothing") {
		t.Errorf("an incomplete plan says %q", got)
	}
}

func TestFieldsAreComparedWhereTheyDiffer(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after string
		want          []string
	}{
		"a nested field":             {"{a: {b: 1, c: 2}}", "{a: {b: 1, c: 3}}", []string{"spec.a.c: 2 → 3"}},
		"added and removed":          {"{a: 1}", "{b: [x]}", []string{"spec.a: 1 removed", `spec.b: set to ["x"]`}},
		"lists by name":              {"{l: [{name: a, v: 1}, {name: b}]}", "{l: [{name: b}, {name: a, v: 2}]}", []string{"spec.l[name=a].v: 1 → 2"}},
		"an item of a list by name":  {"{l: [{name: a}]}", "{l: [{name: a}, {name: b}]}", []string{`spec.l[name=b]: set to {"name":"b"}`}},
		"only the order":             {"{l: [{name: a}, {name: b}]}", "{l: [{name: b}, {name: a}]}", []string{`spec.l: [{"name":"a"},{"name":"b"}] → [{"name":"b"},{"name":"a"}]`}},
		"lists of values":            {"{l: [a, b]}", "{l: [a, c]}", []string{`spec.l[1]: "b" → "c"`}},
		"lists of different lengths": {"{l: [a]}", "{l: [a, c]}", []string{`spec.l: ["a"] → ["a","c"]`}},
		"names that are not unique":  {"{l: [{name: a, v: 1}, {name: a, v: 2}]}", "{l: [{name: a, v: 1}, {name: a, v: 3}]}", []string{"spec.l[1].v: 2 → 3"}},
		"a map becomes a value":      {"{a: {b: 1}}", "{a: 1}", []string{`spec.a: {"b":1} → 1`}},
		"a null":                     {"{a: null}", "{a: 1}", []string{"spec.a: null → 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			const head = "apiVersion: v1\nkind: X\nmetadata: {name: x}\nspec: "
			fields, records := diff(parse(t, head+tc.before), parse(t, head+tc.after), func(object.Path, any) bool { return false })
			var got []string
			for _, f := range fields {
				got = append(got, f.String())
			}
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") || records {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestObjectsOfALayerHaveOneOrder is about objects that are written at the same time: which of them
// came first depends on the machine.
func TestObjectsOfALayerHaveOneOrder(t *testing.T) {
	w := &world{t: t}
	w.app("web", `{a: "1"}`, `{a: "2"}`)
	key := object.Key{Group: "kro.run", Kind: "App", Namespace: "prod", Name: "web"}
	child := func(name string, layer int) string {
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: prod, uid: %s, labels: {applyset.kubernetes.io/part-of: %q}, annotations: {internal.kro.run/apply-order: %q}}}", name, name, inventory.ApplySetID(key), fmt.Sprint(layer))
	}
	for name, layer := range map[string]int{"first": 1, "last": 3, "b": 2, "a": 2} {
		w.add("", child(name, layer))
		w.decide(key, plan.Step{Node: "node-" + name, Object: parse(t, child(name, layer))})
	}
	for name, layer := range map[string]int{"old-first": 1, "old-b": 2, "old-a": 2, "old-last": 3} {
		w.add(child(name, layer), "")
	}
	for range 20 {
		rand.Shuffle(len(w.Objects), func(i, j int) { w.Objects[i].Order, w.Objects[j].Order = w.Objects[j].Order, w.Objects[i].Order })
		var got []string
		for _, o := range New(w.Input).Instances[0].Objects {
			got = append(got, o.Name)
		}
		if text := strings.Join(got, " "); text != "first a b last web-config old-last old-b old-a old-first" {
			t.Fatal(text)
		}
	}
}

// TestAnInstanceOfWhichOnlyTheStatusChangesIsLeftOut: the controllers may write it while the plan is made.
func TestAnInstanceOfWhichOnlyTheStatusChangesIsLeftOut(t *testing.T) {
	w := &world{t: t}
	const shop = "apiVersion: kro.run/v1alpha1\nkind: App\nmetadata: {name: shop, namespace: prod, uid: shop}\n"
	w.add(shop, shop+"status: {state: ACTIVE}\n")
	w.Objects[0].Reconciled = true
	key := object.Key{Group: "kro.run", Kind: "App", Namespace: "prod", Name: "shop"}
	w.decide(key)
	if p := New(w.Input); len(p.Instances) != 0 || p.Summary != (Summary{}) {
		t.Errorf("the plan is %s", p.Text(80))
	}
	w.decide(key, plan.Step{Node: "config", Action: plan.Defer, Waits: []plan.Wait{{Node: "config", On: "config"}}})
	if p := New(w.Input); len(p.Instances) != 1 {
		t.Errorf("the plan does not say what waits: %s", p.Text(80))
	}
}

func TestARenderedInstanceHasTheWarningsOfFunctions(t *testing.T) {
	key := object.Key{Group: "example.org", Kind: "App", Namespace: "prod", Name: "shop"}
	results := []plan.Result{
		{Warning: true, Reason: "ComposeResources", Message: "Pipeline step \"a\": no\nregion"},
		{Warning: true, Reason: "ComposeResources", Message: "Pipeline step \"a\": no\nregion"},
		{Reason: "ComposeResources", Message: "Pipeline step \"a\": all is well"},
		{Warning: true, Reason: "ComposeResources", Message: "step \"b\": the function failed"},
	}
	in := Input{
		Objects:   []Object{{After: parse(t, "apiVersion: example.org/v1\nkind: App\nmetadata: {name: shop, namespace: prod}\n")}},
		Decisions: map[object.Key]plan.Plan{key: {Results: results, Problem: plan.Problem{Message: "cannot compose resources: step \"b\": the function failed"}}},
	}
	text, err := Render(in)[0].YAML()
	want := "---\n# App prod/shop\n# Warning ComposeResources: Pipeline step \"a\": no region\napiVersion: example.org/v1\n"
	if err != nil || !strings.HasPrefix(text, want) {
		t.Errorf("want %q, got %q, %v", want, text, err)
	}
}

func TestAnItemThatStaysAlthoughItIsNotDesiredIsAProblem(t *testing.T) {
	pruning := func(reason string) *unstructured.Unstructured {
		o := parse(t, "{apiVersion: example.org/v1, kind: Store, metadata: {namespace: prod, name: shop, uid: a}}")
		if reason != "" {
			o.Object["status"] = map[string]any{"pruning": []any{map[string]any{
				"node": "ledger", "object": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "prod", "name": "ledger"},
				"reason": reason, "message": "in use by Usage prod/uses; it is deleted once the usage is gone", "since": "2026-01-01T00:00:00Z",
			}}}
		}
		return o
	}
	for name, tc := range map[string]struct {
		before, after string
		want          []string
	}{
		"kept by a Usage": {"", "Protected", []string{"Store prod/shop: Protected: ConfigMap prod/ledger is no longer desired, and stays: in use by Usage prod/uses; it is deleted once the usage is gone"}},
		"as before":       {"Protected", "Protected", nil},
		"being deleted":   {"", "Deleting", nil},
		"gone":            {"Protected", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range New(Input{Objects: []Object{{Before: pruning(tc.before), After: pruning(tc.after), Reconciled: true}}}).Problems {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
