package crash

import (
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

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

// scenario is what a user does and the state that must follow.
type scenario struct {
	name string
	// before prepares the objects, without crashes; optional.
	before steps.Step
	// act is what the user does while the controllers may crash.
	act steps.Step
	// settled waits for the final state.
	settled steps.Step
	// sparse requests fewer crash points: there are many scenarios of deletions.
	sparse bool
	// cleanUp removes what would block the deletion of the namespace; optional.
	cleanUp steps.Step
}

// points returns the writes after which the controllers crash: each write in a full sweep, and
// every few writes otherwise.
func (s scenario) points(writes int) (points []int) {
	stride := testkit.Size(8, 1)
	if s.sparse {
		stride = testkit.Size(18, 1)
	}
	for n := 1 + len(s.name)%stride; n <= writes; n += stride {
		points = append(points, n)
	}
	return points
}

const (
	fixed     = "apiVersion: sweep.example.com/v1alpha1\nkind: Fixed\nmetadata: {name: x, namespace: $NS}\nspec: {value: one}\n"
	refixed   = "apiVersion: sweep.example.com/v1alpha1\nkind: Fixed\nmetadata: {name: x, namespace: $NS}\nspec: {value: two}\n"
	lateAgain = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: late, namespace: $NS}\ndata: {value: there}\n"
)

var scenarios = []scenario{
	{name: "create", act: steps.Apply(steps.Chain), settled: steps.AwaitReady(steps.Kind("Chain"), "one")},
	{
		name: "update", before: steps.CreateChain,
		act: steps.Apply(steps.ChangedChain), settled: steps.AwaitReady(steps.Kind("Chain"), "two"),
	},
	{
		name: "create anew what is immutable", before: steps.All(steps.Apply(fixed), steps.AwaitReady(steps.Kind("Fixed"), "one")),
		act: steps.Apply(refixed), settled: steps.AwaitReady(steps.Kind("Fixed"), "two"),
	},
	{
		name: "leave out", before: steps.CreateChain, act: steps.Apply(steps.ShrunkChain),
		settled: steps.All(steps.AwaitReady(steps.Kind("Chain"), "one"), steps.AwaitAbsent(suite.ConfigMap, "x-c")),
	},
	{
		name: "delete", before: steps.CreateChain,
		act: func(t *testing.T, w *testkit.Cluster, ns string) { w.Delete(t, steps.Kind("Chain"), ns, "x") }, settled: steps.AwaitGone(steps.Kind("Chain")),
	},
	{name: "late value in a nest", act: steps.All(steps.Apply(steps.Top), steps.Apply(steps.Late)), settled: steps.AwaitReady(steps.Kind("Top"), "here")},
	{
		name: "changed value in a nest", before: steps.CreateNest,
		act: steps.Apply(lateAgain), settled: steps.AwaitReady(steps.Kind("Top"), "there"),
	},
	{
		name: "delete a nest", before: steps.CreateNest,
		act: func(t *testing.T, w *testkit.Cluster, ns string) { w.Delete(t, steps.Kind("Top"), ns, "x") }, settled: steps.AwaitGone(steps.Kind("Top")),
	},
}

func TestSweep(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	stop := steps.Run(t, config)
	steps.Define(t, w)
	stop()
	points := 0
	// Namespaces are deleted after all scenarios: the writes of their deletion would count in
	// another scenario.
	namespace := func() string { return testkit.Namespace(t, config) }
	for _, s := range slices.Concat(scenarios, deletions, composites) {
		t.Run(s.name, func(t *testing.T) {
			want, writes := converge(t, config, w, s, namespace(), 0)
			for _, n := range s.points(writes) {
				points++
				got, _ := converge(t, config, w, s, namespace(), n)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("after a crash at write %d of %d the cluster differs (-without +with):\n%s", n, writes, diff)
				}
			}
			t.Logf("%d writes", writes)
		})
	}
	t.Logf("%d crash points", points)
	testkit.Report(t, "sweep: %d crash points", points)
}

// converge plays a scenario in a namespace, with a crash after the n-th write (none for 0), and
// returns the final inventory and the number of writes.
func converge(t *testing.T, config *rest.Config, w *testkit.Cluster, s scenario, ns string, n int) ([]string, int) {
	t.Helper()
	if s.before != nil {
		stop := steps.Run(t, config)
		s.before(t, w, ns)
		stop()
	}
	seen := recordNames(t, w, ns)
	crash := testkit.NewCrash(n)
	stop := crash.RunAndRestart(config, func(c *rest.Config) func() { return steps.Run(t, c) })
	s.act(t, w, ns)
	s.settled(t, w, ns)
	stop()
	writes := crash.Writes()
	left := append(inventory(t, w, ns), seen()...)
	if s.cleanUp != nil {
		s.cleanUp(t, w, ns)
	}
	return left, writes
}

// recordNames watches the composed ConfigMaps and Secrets of a namespace. Seen returns, at the
// end, how many object names each name in a composition has had: a crash must not orphan an
// object, nor create it under another name.
func recordNames(t *testing.T, w *testkit.Cluster, ns string) (seen func() []string) {
	t.Helper()
	kinds := []schema.GroupVersionKind{suite.ConfigMap, suite.Secret}
	var events []watch.Interface
	for _, gvk := range kinds {
		stream, err := w.Resource(t, gvk, ns).Watch(t.Context(), metav1.ListOptions{})
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
			out = append(out, fmt.Sprintf("%s has had %d names", of, len(all)))
		}
		slices.Sort(out)
		return out
	}
}

// inventory lists the objects of a namespace, and those of its claims outside of it, without
// values that differ between runs.
func inventory(t *testing.T, w *testkit.Cluster, ns string) []string {
	t.Helper()
	var found []*unstructured.Unstructured
	inside := []schema.GroupVersionKind{suite.ConfigMap, suite.Secret, steps.Kind("Chain"), steps.Kind("Keeper"), steps.Kind("Low"), steps.Kind("Mid"), steps.Kind("Top"), steps.Kind("Five"), steps.Kind("Deep"), steps.Kind("Store"), steps.Kind("High")}
	for _, gvk := range inside {
		list := w.List(t, gvk, ns, "")
		for i := range list {
			if list[i].GetName() != "kube-root-ca.crt" {
				found = append(found, &list[i])
			}
		}
	}
	for _, gvk := range []schema.GroupVersionKind{steps.Kind("XStore"), steps.Kind("XHigh"), steps.Kind("Middle"), suite.Secret} {
		list := w.List(t, gvk, metav1.NamespaceDefault, "crossplane.io/claim-namespace="+ns)
		for i := range list {
			found = append(found, &list[i])
		}
	}
	same := replaceNames(found, ns)
	unnamed := regexp.MustCompile("x-[0-9a-f]{12}") // names of composed resources are random
	var out []string
	for _, o := range found {
		out = append(out, unnamed.ReplaceAllString(same.Replace(fmt.Sprintf("%s %s labels=%v annotations=%v owners=%d data=%v spec=%v finalizers=%v terminating=%t status=%v", o.GetKind(), o.GetName(), len(o.GetLabels()),
			len(o.GetAnnotations()), len(o.GetOwnerReferences()), o.Object["data"], sortedSpec(o, same), o.GetFinalizers(), o.GetDeletionTimestamp() != nil, statusWithoutTimes(o))), "$UNNAMED"))
	}
	slices.Sort(out)
	return out
}

// replaceNames replaces names and UIDs that are random or contain the namespace by the names
// in the composition.
func replaceNames(found []*unstructured.Unstructured, ns string) *strings.Replacer {
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
	delete(texts, "late") // the composition names it
	var pairs []string
	for _, text := range slices.SortedFunc(maps.Keys(texts), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, text, texts[text])
	}
	return strings.NewReplacer(pairs...)
}

// sortedSpec returns the spec of an object with its references in an order that does not
// depend on random names.
func sortedSpec(o *unstructured.Unstructured, same *strings.Replacer) any {
	spec, _ := o.Object["spec"].(map[string]any)
	for _, at := range []any{spec, spec["crossplane"]} {
		within, _ := at.(map[string]any)
		refs, _ := within["resourceRefs"].([]any)
		slices.SortFunc(refs, func(a, b any) int { return strings.Compare(same.Replace(fmt.Sprint(a)), same.Replace(fmt.Sprint(b))) })
	}
	return spec
}

// statusWithoutTimes returns the status of an object without connection details and the times
// of conditions. It replaces the current generation by "now": a change of the spec in two
// writes counts twice.
func statusWithoutTimes(o *unstructured.Unstructured) any {
	m, _ := o.Object["status"].(map[string]any)
	delete(m, "connectionDetails")
	if m["observedGeneration"] == o.GetGeneration() {
		m["observedGeneration"] = "now"
	}
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
