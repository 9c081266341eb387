package crash

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// definitions are those of all scenarios: a chain of five in three layers, one of
// what stays when its instance goes, and a nest of three whose lowest value comes
// late.
const definitions = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: sweep-chain}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Chain
    group: sweep.example.com
    spec: {value: string, extra: boolean | default=true}
    status: {shown: "${e.data.value}"}
  resources:
    - id: a
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-a"}, data: {value: "${schema.spec.value}"}}
    - id: b
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-b"}, data: {value: "${a.data.value}"}}
    - id: c
      includeWhen: ["${schema.spec.extra}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-c"}, data: {value: "${a.data.value}"}}
    - id: d
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-d"}, data: {value: "${b.data.value}"}}
    - id: e
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-e"}, data: {value: "${b.data.value}"}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: sweep-keeper}
spec:
  schema: {apiVersion: v1alpha1, kind: Keeper, group: sweep.example.com}
  resources:
    - id: orphan
      deletionPolicy: Orphan
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-orphan"}, data: {value: one}}
    - id: retained
      deletionPolicy: Retain
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-retained"}, data: {value: "${orphan.data.value}"}}
    - id: below
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-below"}, data: {value: one}}
    - id: above
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-above"}, data: {value: "${below.data.value}"}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: sweep-fixed}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Fixed
    group: sweep.example.com
    spec: {value: string}
    status: {value: "${above.data.value}"}
  resources:
    - id: below
      onConflict: Recreate
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-below"}, immutable: true, data: {value: "${schema.spec.value}"}}
    - id: above
      onConflict: Recreate
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-above"}, immutable: true, data: {value: "${below.data.value}"}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: sweep-low}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Low
    group: sweep.example.com
    spec: {source: string}
    status: {value: "${source.data.value}"}
  resources:
    - id: source
      externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.source}"}}
    - id: copy
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-low"}, data: {value: "${source.data.value}"}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: sweep-mid}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Mid
    group: sweep.example.com
    spec: {source: string}
    status: {value: "${low.status.value}"}
  resources:
    - id: low
      template: {apiVersion: sweep.example.com/v1alpha1, kind: Low, metadata: {name: "${schema.metadata.name}"}, spec: {source: "${schema.spec.source}"}}
    - id: copy
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-mid"}, data: {value: "${low.status.value}"}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: sweep-top}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Top
    group: sweep.example.com
    spec: {source: string}
    status: {value: "${mid.status.value}"}
  resources:
    - id: mid
      template: {apiVersion: sweep.example.com/v1alpha1, kind: Mid, metadata: {name: "${schema.metadata.name}"}, spec: {source: "${schema.spec.source}"}}
    - id: copy
      waitFor: {mid: {fields: [status.value]}}
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-top"}, data: {value: "${mid.status.value}"}}
`

func kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "sweep.example.com", Version: "v1alpha1", Kind: name}
}

var configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// scenario is something that a person does, and what must come of it.
type scenario struct {
	name string
	// before is done and has settled before the controllers may crash.
	before func(t *testing.T, w *testkit.World, ns string)
	// act is what happens while they may.
	act func(t *testing.T, w *testkit.World, ns string)
	// settled waits until all that is to come of it has.
	settled func(t *testing.T, w *testkit.World, ns string)
	// hard is of deletions that don't just go on to their end.
	hard bool
	// after lets go of what would keep the namespace; optional.
	after func(t *testing.T, w *testkit.World, ns string)
}

// points are the writes after which there is a crash: of so many that there are, each
// where the sweep is run in full, and every few where it is one test of many, most sparsely
// of the many scenarios of deletions.
func (s scenario) points(writes int) (points []int) {
	stride := testkit.Size(8, 1)
	if s.hard {
		stride = testkit.Size(18, 1)
	}
	for n := 1 + len(s.name)%stride; n <= writes; n += stride {
		points = append(points, n)
	}
	return points
}

func apply(text string) func(*testing.T, *testkit.World, string) {
	return func(t *testing.T, w *testkit.World, ns string) {
		w.Apply(t, strings.ReplaceAll(text, "$NS", ns))
	}
}

func ready(gvk schema.GroupVersionKind, value string) func(*testing.T, *testkit.World, string) {
	field := "value"
	if gvk.Kind == "Chain" {
		field = "shown"
	}
	return func(t *testing.T, w *testkit.World, ns string) {
		w.Await(t, gvk, ns, "x", func(o *unstructured.Unstructured) error {
			if err := testkit.IsReady(o); err != nil {
				return err
			}
			if got, _, _ := unstructured.NestedString(o.Object, "status", field); got != value {
				return fmt.Errorf("status.%s is %q, not %q", field, got, value)
			}
			return nil
		})
	}
}

func gone(gvk schema.GroupVersionKind) func(*testing.T, *testkit.World, string) {
	return func(t *testing.T, w *testkit.World, ns string) { w.AwaitGone(t, gvk, ns, "x") }
}

func both(first, second func(*testing.T, *testkit.World, string)) func(*testing.T, *testkit.World, string) {
	return func(t *testing.T, w *testkit.World, ns string) {
		first(t, w, ns)
		second(t, w, ns)
	}
}

const (
	chain     = "apiVersion: sweep.example.com/v1alpha1\nkind: Chain\nmetadata: {name: x, namespace: $NS}\nspec: {value: one}\n"
	changed   = "apiVersion: sweep.example.com/v1alpha1\nkind: Chain\nmetadata: {name: x, namespace: $NS}\nspec: {value: two}\n"
	fixed     = "apiVersion: sweep.example.com/v1alpha1\nkind: Fixed\nmetadata: {name: x, namespace: $NS}\nspec: {value: one}\n"
	refixed   = "apiVersion: sweep.example.com/v1alpha1\nkind: Fixed\nmetadata: {name: x, namespace: $NS}\nspec: {value: two}\n"
	shrunk    = "apiVersion: sweep.example.com/v1alpha1\nkind: Chain\nmetadata: {name: x, namespace: $NS}\nspec: {value: one, extra: false}\n"
	top       = "apiVersion: sweep.example.com/v1alpha1\nkind: Top\nmetadata: {name: x, namespace: $NS}\nspec: {source: late}\n"
	late      = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: late, namespace: $NS}\ndata: {value: here}\n"
	lateAgain = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: late, namespace: $NS}\ndata: {value: there}\n"
)

var scenarios = []scenario{
	{name: "create", act: apply(chain), settled: ready(kind("Chain"), "one")},
	{
		name: "update", before: both(apply(chain), ready(kind("Chain"), "one")),
		act: apply(changed), settled: ready(kind("Chain"), "two"),
	},
	{
		name: "create anew what is immutable", before: both(apply(fixed), ready(kind("Fixed"), "one")),
		act: apply(refixed), settled: ready(kind("Fixed"), "two"),
	},
	{
		name: "leave out", before: both(apply(chain), ready(kind("Chain"), "one")), act: apply(shrunk),
		settled: both(ready(kind("Chain"), "one"), func(t *testing.T, w *testkit.World, ns string) { w.AwaitGone(t, configMap, ns, "x-c") }),
	},
	{
		name: "delete", before: both(apply(chain), ready(kind("Chain"), "one")),
		act: func(t *testing.T, w *testkit.World, ns string) { w.Delete(t, kind("Chain"), ns, "x") }, settled: gone(kind("Chain")),
	},
	{name: "late value in a nest", act: both(apply(top), apply(late)), settled: ready(kind("Top"), "here")},
	{
		name: "changed value in a nest", before: both(both(apply(top), apply(late)), ready(kind("Top"), "here")),
		act: apply(lateAgain), settled: ready(kind("Top"), "there"),
	},
	{
		name: "delete a nest", before: both(both(apply(top), apply(late)), ready(kind("Top"), "here")),
		act: func(t *testing.T, w *testkit.World, ns string) { w.Delete(t, kind("Top"), ns, "x") }, settled: gone(kind("Top")),
	},
}

// run starts the controllers and returns how to stop them.
func run(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	return runWith(t, server.Options{Config: config})
}

func runWith(t *testing.T, options server.Options) (stop func()) {
	t.Helper()
	c := suite.Start(t, options)
	return func() { _ = c.Stop() } // a crash is an error
}

func TestSweep(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	stop := run(t, config)
	define(t, w)
	stop()
	points := 0
	// The namespaces go at the end of it all: what is in them would be taken apart in
	// the middle of another scenario, and its writes counted there.
	namespace := func() string { return testkit.Namespace(t, config) }
	for _, s := range slices.Concat(scenarios, deletions, composites) {
		t.Run(s.name, func(t *testing.T) {
			want, writes := converge(t, config, w, s, namespace(), 0)
			for _, n := range s.points(writes) {
				points++
				got, _ := converge(t, config, w, s, namespace(), n)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("after a crash at write %d of %d the world differs (-without +with):\n%s", n, writes, diff)
				}
			}
			t.Logf("%d writes", writes)
		})
	}
	t.Logf("%d crash points", points)
	testkit.Say(t, "sweep: %d crash points", points)
}

// define applies the definitions and waits until all are served and typed: those
// that compose others are compiled anew when these appear.
func define(t *testing.T, w *testkit.World) {
	t.Helper()
	w.Apply(t, definitions+compositeDefinitions)
	for _, name := range []string{"sweep-chain", "sweep-keeper", "sweep-fixed", "sweep-low", "sweep-mid", "sweep-top"} {
		w.Await(t, definitionKind, "", name, func(o *unstructured.Unstructured) error {
			if err := testkit.IsReady(o); err != nil {
				return err
			}
			if message := testkit.Message(o, "GraphAccepted"); strings.Contains(message, "not installed") {
				return errors.New(message)
			}
			return nil
		})
	}
	awaitComposites(t, w)
}

// converge plays a scenario in a namespace of its own, with a crash after the
// n-th write (none for 0), and returns what is there in the end and how many
// writes there were until then.
func converge(t *testing.T, config *rest.Config, w *testkit.World, s scenario, ns string, n int) ([]string, int) {
	t.Helper()
	if s.before != nil {
		stop := run(t, config)
		s.before(t, w, ns)
		stop()
	}
	seen := witness(t, w, ns)
	crash := testkit.NewCrash(n)
	stop := crash.Revive(config, func(c *rest.Config) func() { return run(t, c) })
	s.act(t, w, ns)
	s.settled(t, w, ns)
	stop()
	writes := crash.Writes()
	left := append(inventory(t, w, ns), seen()...)
	if s.after != nil {
		s.after(t, w, ns)
	}
	return left, writes
}

// witness watches the ConfigMaps and Secrets that are composed in a namespace. What it
// returns says, in the end, how many of each name in a composition there have ever been: a
// crash must not leave one behind, nor have it made under another name.
func witness(t *testing.T, w *testkit.World, ns string) (seen func() []string) {
	t.Helper()
	kinds := []schema.GroupVersionKind{configMap, secretKind}
	var events []watch.Interface
	for _, gvk := range kinds {
		stream, err := w.Of(t, gvk, ns).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, stream)
	}
	return func() []string {
		t.Helper()
		names := map[string]map[string]bool{}
		for i, gvk := range kinds {
			last := &unstructured.Unstructured{}
			last.SetGroupVersionKind(gvk)
			last.SetNamespace(ns)
			last.SetName("last")
			if _, err := w.TryApply(t, last); err != nil {
				t.Fatal(err)
			}
			for event := range events[i].ResultChan() {
				o, ok := event.Object.(*unstructured.Unstructured)
				if !ok {
					t.Fatalf("the watch ended: %v", event.Object)
				}
				if o.GetName() == "last" {
					break
				}
				if node := o.GetAnnotations()["crossplane.io/composition-resource-name"]; node != "" {
					of := gvk.Kind + " " + node
					if names[of] == nil {
						names[of] = map[string]bool{}
					}
					names[of][o.GetName()] = true
				}
			}
			events[i].Stop()
			w.Delete(t, gvk, ns, "last")
		}
		var out []string
		for of, all := range names {
			out = append(out, fmt.Sprintf("of %s there have been %d", of, len(all)))
		}
		slices.Sort(out)
		return out
	}
}

// inventory lists what is in a namespace, and what a claim of it has outside, without what
// differs from run to run.
func inventory(t *testing.T, w *testkit.World, ns string) []string {
	t.Helper()
	var found []*unstructured.Unstructured
	inside := []schema.GroupVersionKind{configMap, secretKind, kind("Chain"), kind("Keeper"), kind("Low"), kind("Mid"), kind("Top"), kind("Five"), kind("Deep"), kind("Store"), kind("High")}
	for _, gvk := range inside {
		list, err := w.Of(t, gvk, ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if list.Items[i].GetName() != "kube-root-ca.crt" {
				found = append(found, &list.Items[i])
			}
		}
	}
	for _, gvk := range []schema.GroupVersionKind{kind("XStore"), kind("XHigh"), kind("Middle"), secretKind} {
		list, err := w.Of(t, gvk, metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: "crossplane.io/claim-namespace=" + ns})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	}
	same := sameNames(found, ns)
	unnamed := regexp.MustCompile("x-[0-9a-f]{12}") // and without what says which it is in a composition
	var out []string
	for _, o := range found {
		out = append(out, unnamed.ReplaceAllString(same.Replace(fmt.Sprintf("%s %s labels=%v annotations=%v owners=%d data=%v spec=%v finalizers=%v going=%t status=%v", o.GetKind(), o.GetName(), len(o.GetLabels()),
			len(o.GetAnnotations()), len(o.GetOwnerReferences()), o.Object["data"], inOrder(o, same), o.GetFinalizers(), o.GetDeletionTimestamp() != nil, timeless(o))), "$UNNAMED"))
	}
	slices.Sort(out)
	return out
}

// sameNames puts what objects are in a composition into the place of names and UIDs that
// follow from the namespace or from chance.
func sameNames(found []*unstructured.Unstructured, ns string) *strings.Replacer {
	texts := map[string]string{ns: "$NS"}
	for _, o := range found {
		texts[string(o.GetUID())] = "$UID"
		switch {
		case o.GetAnnotations()["crossplane.io/composition-resource-name"] != "":
			texts[o.GetName()] = "$" + o.GetAnnotations()["crossplane.io/composition-resource-name"]
		case o.GetNamespace() == "":
			texts[o.GetName()] = "$COMPOSITE"
		}
	}
	delete(texts, "late") // named by its composition
	var pairs []string
	for _, text := range slices.SortedFunc(maps.Keys(texts), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, text, texts[text])
	}
	return strings.NewReplacer(pairs...)
}

// inOrder is the spec of an object with what it refers to in an order that doesn't come of
// the names.
func inOrder(o *unstructured.Unstructured, same *strings.Replacer) any {
	spec, _ := o.Object["spec"].(map[string]any)
	for _, at := range []any{spec, spec["crossplane"]} {
		within, _ := at.(map[string]any)
		refs, _ := within["resourceRefs"].([]any)
		slices.SortFunc(refs, func(a, b any) int { return strings.Compare(same.Replace(fmt.Sprint(a)), same.Replace(fmt.Sprint(b))) })
	}
	return spec
}

// timeless is the status of an object without the times of conditions and of connection
// details, and with the object's generation for what it is: a change of the spec that is
// written in two halves makes two.
func timeless(o *unstructured.Unstructured) any {
	m, _ := o.Object["status"].(map[string]any)
	delete(m, "connectionDetails")
	list, _ := m["conditions"].([]any)
	for _, item := range list {
		if c, ok := item.(map[string]any); ok {
			delete(c, "lastTransitionTime")
			if c["observedGeneration"] == o.GetGeneration() {
				c["observedGeneration"] = "now"
			}
		}
	}
	return m
}
