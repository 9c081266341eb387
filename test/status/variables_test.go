package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/reader"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

const named = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-named}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Named
    group: $GROUP
    spec: {zones: "[]string", extra: boolean | default=true}
    status:
      prefix: ${naming.prefix}
      cells: ${size(plan)}
      address: ${address.host}
  resources:
    - id: naming
      value:
        prefix: ${schema.metadata.name}-x
        labels: {app.kubernetes.io/name: "${schema.metadata.name}", team: web}
    - id: plan
      value: "${schema.spec.zones.map(z, {'name': naming.prefix + '-' + z, 'zone': z})}"
    - id: settings
      externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}
    - id: address
      value: {host: "${settings.data.host}", url: "https://${settings.data.host}"}
    - id: cells
      forEach: [{cell: "${plan}"}]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${cell.name}", labels: "${naming.labels}"}, data: {zone: "${cell.zone}"}}
    - id: extra
      includeWhen: ["${schema.spec.extra}", "${flag && number == 7}"]
      value: {name: "${naming.prefix}-extra"}
    - id: more
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${extra.name}"}, data: {url: "${address.url}"}}
    - id: flag
      value: true
    - id: number
      value: 7
`

func TestVariablesAreReadEverywhereAndWaitVisibly(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, named)
	order := func(o *unstructured.Unstructured) error {
		ids, _, _ := unstructured.NestedStringSlice(o.Object, "status", "topologicalOrder")
		if !slices.Contains(ids, "naming") || slices.Index(ids, "naming") > slices.Index(ids, "plan") || slices.Index(ids, "address") > slices.Index(ids, "more") {
			return fmt.Errorf("the order is %v", ids)
		}
		return nil
	}
	s.Await(t, suite.RGD, "", s.Name("named"), suite.All(testkit.IsReady, order))
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Named\nmetadata: {name: one, namespace: $NS}\nspec: {zones: [a, b]}\n")
	kind := s.Kind("Named")

	t.Log("what reads nothing else is there at once, and what is not there yet is waited for by name")
	s.Await(t, kind, s.NS, "one", suite.All(suite.HasField("one-x", "status", "prefix"), suite.HasField(int64(2), "status", "cells"),
		suite.HasCondition("Ready", "False", "WaitingForExternal", "settings waits for ConfigMap", "more waits for unresolved address.url (address waits for unresolved settings")))
	s.Await(t, suite.ConfigMap, s.NS, "one-x-a", suite.All(suite.HasField("web", "metadata", "labels", "team"), suite.HasField("one", "metadata", "labels", "app.kubernetes.io/name"), suite.HasField("a", "data", "zone")))
	s.Await(t, kind, s.NS, "one", waitsForNode("address", "settings.data.host"))

	t.Log("the tree tells the variables as what they are")
	want := map[string]string{"naming": "Variable", "plan": "Variable", "extra": "Variable", "flag": "Variable", "number": "Variable", "address": "WaitingForField"}
	if diff := cmp.Diff(want, variables(t, s, kind, "one")); diff != "" {
		t.Errorf("the tree (-want +got):\n%s", diff)
	}

	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: $NS}\ndata: {host: example.com}\n")
	s.Await(t, kind, s.NS, "one", suite.All(testkit.IsReady, suite.HasField("example.com", "status", "address")))
	s.Await(t, suite.ConfigMap, s.NS, "one-x-extra", suite.All(suite.HasField("https://example.com", "data", "url")))

	t.Log("a variable that is left out takes along what reads it, and a change reaches all readers")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Named\nmetadata: {name: one, namespace: $NS}\nspec: {zones: [a, c, d], extra: false}\n")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "one-x-extra")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "one-x-b")
	o := s.Await(t, kind, s.NS, "one", suite.All(testkit.IsReady, suite.HasField(int64(3), "status", "cells")))
	if raw := testkit.JSON(&unstructured.Unstructured{Object: map[string]any{"metadata": o.Object["metadata"]}}); strings.Contains(raw, "naming") {
		t.Errorf("a variable is written down: %s", raw)
	}

	t.Log("a resource that becomes a variable gives up its object")
	s.Apply(t, strings.Replace(named, `      forEach: [{cell: "${plan}"}]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${cell.name}", labels: "${naming.labels}"}, data: {zone: "${cell.zone}"}}
`, "      value: ${plan.map(c, c.name)}\n", 1))
	s.AwaitGone(t, suite.ConfigMap, s.NS, "one-x-a")
	s.Delete(t, kind, s.NS, "one")
	s.AwaitGone(t, kind, s.NS, "one")
}

// tree is the tree of an object.
func tree(t *testing.T, s suite.Suite, kind schema.GroupVersionKind, namespace, name string) observe.Node {
	t.Helper()
	cluster, err := reader.New(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	mapping, err := cluster.Kinds.RESTMapping(kind.GroupKind())
	if err != nil {
		t.Fatal(err)
	}
	world, err := follow.Gather(t.Context(), cluster, reader.Target{Mapping: mapping, Namespace: namespace, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return observe.Build(world, time.Now())
}

// variables are the variables of an instance as its tree has them, with the reasons.
func variables(t *testing.T, s suite.Suite, kind schema.GroupVersionKind, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, n := range tree(t, s, kind, s.NS, name).Children {
		if n.Variable {
			out[n.Node] = n.Reason
		}
	}
	return out
}

// waitsForNode checks that the status names the node that a resource waits for.
func waitsForNode(node, on string) suite.Check {
	return func(o *unstructured.Unstructured) error {
		waiting, _, _ := unstructured.NestedSlice(o.Object, "status", "waiting")
		for _, w := range waiting {
			if m := w.(map[string]any); m["node"] == node && strings.HasPrefix(fmt.Sprint(m["on"]), on) {
				return nil
			}
		}
		return fmt.Errorf("%s doesn't wait for %s: %v", node, on, waiting)
	}
}

func TestAnInvalidVariableIsReportedWithOtherProblems(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, strings.NewReplacer("${naming.prefix}-extra", "${naming.prefx}-extra", "includeWhen: [\"${schema.spec.extra}\", \"${flag && number == 7}\"]", "readyWhen: [\"${true}\"]").Replace(named))
	s.Await(t, suite.RGD, "", s.Name("named"), suite.HasCondition("GraphAccepted", "False", "InvalidResourceGraph",
		`spec.resources[5].value.name: in "naming.prefx" at 8: undefined field 'prefx' in naming; did you mean "prefix"?`,
		"spec.resources[5].readyWhen: does not apply to a variable"))
}
