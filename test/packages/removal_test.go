package packages

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/composition/packages/controller"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var (
	compositionKind = schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "Composition"}
	graphKind       = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"}
)

func instanceKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "packages.example.org", Version: "v1", Kind: kind}
}

// instance applies an instance of a kind in the namespace of the world.
func (w *world) instance(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	return w.Apply(t, fmt.Sprintf("{apiVersion: packages.example.org/v1, kind: %s, metadata: {name: %s, namespace: %s}, spec: {}}", kind, name, w.namespace))[0]
}

func remains(texts ...string) suite.Check {
	return func(o *unstructured.Unstructured) error {
		var pairs []string
		for _, text := range texts {
			pairs = append(pairs, "Ready", "False", text)
		}
		return hasConditions(pairs...)(o)
	}
}

// TestAConfigurationWithInstancesIsNotDeleted before the instances are gone. A deletion in the foreground is refused.
func TestAConfigurationWithInstancesIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	w.push(t, "org/used:v1.0.0", nil, w.meta("Configuration", "used"), definition("Used"))
	w.start(t, w.config)
	w.install(t, "Configuration", "used", "org/used:v1.0.0")
	w.Await(t, configurationKind, "", "used", healthy)
	w.Await(t, definitionKind, "", "useds.packages.example.org", suite.HasCondition("Established", "True", ""))
	for i := range 7 {
		w.instance(t, "Used", fmt.Sprintf("one-%d", i))
	}

	foreground := metav1.DeletePropagationForeground
	testkit.Poll(t, "a deletion in the foreground is refused", func() bool { // once the API server evaluates the policy
		err := w.Resource(t, configurationKind, "").Delete(t.Context(), "used", metav1.DeleteOptions{PropagationPolicy: &foreground, DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "would delete the definitions of Configuration used although they have instances; delete it in the background")
	})
	w.Delete(t, configurationKind, "", "used")
	w.Await(t, configurationKind, "", "used", remains("the package is in use: Used "+w.namespace+"/one-0, ", "one-4 and 2 more"))
	for i := range 6 {
		w.Delete(t, instanceKind("Used"), w.namespace, fmt.Sprintf("one-%d", i))
	}
	w.Await(t, configurationKind, "", "used", remains("in use: Used "+w.namespace+"/one-6. It is deleted once"))
	if o := w.Get(t, definitionKind, "", "useds.packages.example.org"); o == nil || o.GetDeletionTimestamp() != nil {
		t.Fatalf("its definition is deleted: %s", testkit.JSON(o))
	}
	if o := w.Get(t, instanceKind("Used"), w.namespace, "one-6"); o.GetDeletionTimestamp() != nil {
		t.Fatal("its last instance is deleted")
	}
	w.Delete(t, instanceKind("Used"), w.namespace, "one-6")
	w.AwaitGone(t, configurationKind, "", "used")
	w.AwaitGone(t, definitionKind, "", "useds.packages.example.org")
}

// TestAPackageInUseIsDeletedOnRequest of a user who names that, and orphaned by kubectl delete --cascade=orphan.
func TestAPackageInUseIsDeletedOnRequest(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []string{"Asked", "Orphaned"} {
		w.push(t, "org/"+strings.ToLower(kind)+":v1.0.0", nil, w.meta("Configuration", strings.ToLower(kind)), definition(kind))
	}
	w.start(t, w.config)
	for _, kind := range []string{"Asked", "Orphaned"} {
		name := strings.ToLower(kind)
		w.install(t, "Configuration", name, "org/"+strings.ToLower(kind)+":v1.0.0")
		w.Await(t, configurationKind, "", name, healthy)
		w.Await(t, definitionKind, "", name+"s.packages.example.org", suite.HasCondition("Established", "True", ""))
		w.instance(t, kind, "one")
	}
	w.Delete(t, configurationKind, "", "asked")
	w.Await(t, configurationKind, "", "asked", remains("Asked "+w.namespace+"/one"))
	w.Patch(t, configurationKind, "", "asked", fmt.Sprintf(`{"metadata": {"annotations": {%q: "true"}}}`, controller.DeleteInUseAnnotation))
	w.AwaitGone(t, configurationKind, "", "asked")
	w.AwaitGone(t, definitionKind, "", "askeds.packages.example.org")

	w.DeleteWith(t, configurationKind, "", "orphaned", metav1.DeletePropagationOrphan)
	w.AwaitGone(t, configurationKind, "", "orphaned")
	if o := w.Get(t, instanceKind("Orphaned"), w.namespace, "one"); o == nil || o.GetDeletionTimestamp() != nil {
		t.Errorf("the instance of an orphaned package is deleted: %s", testkit.JSON(o))
	}
}

// TestAGraphOfAPackageProtectsIt: an instance of a ResourceGraphDefinition counts as one of a composite.
func TestAGraphOfAPackageProtectsIt(t *testing.T) {
	w := newWorld(t)
	meta := strings.Replace(w.meta("Configuration", "graphs"), "{name: graphs}", `{name: graphs, annotations: {espalier.dev/graphs: "true"}}`, 1)
	w.push(t, "org/graphs:v1.0.0", nil, meta, `apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: packaged}
spec:
  schema: {apiVersion: v1, kind: Packaged, group: packages.example.org, spec: {text: string}}
  resources:
  - id: config
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {text: "${schema.spec.text}"}}
`)
	w.start(t, w.config)
	w.install(t, "Configuration", "graphs", "org/graphs:v1.0.0")
	w.Await(t, configurationKind, "", "graphs", healthy)
	w.Await(t, graphKind, "", "packaged", suite.HasCondition("Ready", "True", ""))
	w.Apply(t, fmt.Sprintf("{apiVersion: packages.example.org/v1, kind: Packaged, metadata: {name: one, namespace: %s}, spec: {text: hello}}", w.namespace))
	w.Delete(t, configurationKind, "", "graphs")
	w.Await(t, configurationKind, "", "graphs", remains("Packaged "+w.namespace+"/one"))
	w.Delete(t, instanceKind("Packaged"), w.namespace, "one")
	w.AwaitGone(t, configurationKind, "", "graphs")
	w.AwaitGone(t, graphKind, "", "packaged")
}

// TestAFunctionThatACompositionCallsIsNotDeleted, and answers until it is.
func TestAFunctionThatACompositionCallsIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	w.push(t, "org/function-called:v1.0.0", answering(t, "called"), w.meta("Function", "function-called"))
	c := w.start(t, w.config)
	w.install(t, "Function", "called", "org/function-called:v1.0.0")
	w.Await(t, functionKind, "", "called", healthy)
	w.Apply(t, `{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {name: caller}, spec: {compositeTypeRef: {apiVersion: packages.example.org/v1, kind: Caller}, mode: Pipeline, pipeline: [{step: call, functionRef: {name: called}}]}}`)
	w.Delete(t, functionKind, "", "called")
	w.Await(t, functionKind, "", "called", remains("in use: Composition caller."))
	if got := call(t.Context(), c, "called"); got != "called" {
		t.Errorf("it answers %q", got)
	}
	w.Delete(t, compositionKind, "", "caller")
	w.AwaitGone(t, functionKind, "", "called")
}

// TestARemovalContinuesAfterACrash at each of its writes.
func TestARemovalContinuesAfterACrash(t *testing.T) {
	w := newWorld(t)
	first := w.start(t, w.config)
	remove := func(n int) (writes int) {
		kind := fmt.Sprintf("Removed%d", n)
		name := strings.ToLower(kind)
		w.push(t, "org/"+name+":v1.0.0", nil, w.meta("Configuration", name), definition(kind))
		c := first
		if n > 0 {
			c = w.begin(t, w.config)
		}
		w.install(t, "Configuration", name, "org/"+name+":v1.0.0")
		w.Await(t, configurationKind, "", name, healthy)
		w.Await(t, definitionKind, "", name+"s.packages.example.org", suite.HasCondition("Established", "True", ""))
		w.instance(t, kind, "one")
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		w.Delete(t, configurationKind, "", name)
		crash := testkit.NewCrash(n)
		stop := crash.RunAndRestart(w.config, func(config *rest.Config) func() {
			c := w.begin(t, config)
			return func() { _ = c.Stop() }
		})
		w.Await(t, configurationKind, "", name, remains(kind+" "+w.namespace+"/one"))
		if o := w.Get(t, definitionKind, "", name+"s.packages.example.org"); o.GetDeletionTimestamp() != nil {
			t.Errorf("after write %d, the definition is deleted", n)
		}
		w.Delete(t, instanceKind(kind), w.namespace, "one")
		w.AwaitGone(t, configurationKind, "", name)
		w.AwaitGone(t, definitionKind, "", name+"s.packages.example.org")
		writes = crash.Writes()
		stop()
		return writes
	}
	writes := remove(0)
	for n := 1; n <= writes; n += testkit.Size(3, 1) {
		remove(n)
	}
}
