package graphs

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var configMap = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// graphOf is a Graph of the account "builder" of the namespace.
func graphOf(name, nodes string) string {
	return fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: Graph
metadata: {name: %s, namespace: $NS}
spec:
  serviceAccountName: builder
  nodes: %s
`, name, nodes)
}

// builder has all rights in the namespace of the test, and the controllers may impersonate it.
func builder(t *testing.T, s suite.Suite) {
	t.Helper()
	s.AllowImpersonation(t, "builder")
	s.Apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: builder, namespace: $NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: builder, namespace: $NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: builder, namespace: $NS}]
`)
}

func condition(kind, status, reason string, contains ...string) suite.Check {
	return suite.HasCondition(kind, status, reason, contains...)
}

// TestNodesAreAppliedInTheOrderOfTheirData and deleted in the reverse order; the inventory names them.
func TestNodesAreAppliedInTheOrderOfTheirData(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, graphOf("pair", `
  - {id: b, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${a.metadata.name}-b"}, data: {k: "${a.data.k}"}}}
  - {id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: x}}}`))
	s.Await(t, graph.GraphKind, s.NS, "pair", suite.All(
		condition("Accepted", "True", "Compiled"), condition("ResourcesConverged", "True", "Applied"), condition("Ready", "True", ""),
		suite.HasField("system:serviceaccount:"+s.NS+":builder", "status", "appliedServiceAccount"), managed("a=ConfigMap/a", "b=ConfigMap/a-b")))
	s.Await(t, configMap, s.NS, "a-b", suite.HasField("x", "data", "k"))
	s.Patch(t, configMap, s.NS, "a", `{"data": {"k": "changed"}}`) // which is reverted
	s.Await(t, configMap, s.NS, "a", suite.HasField("x", "data", "k"))

	s.Apply(t, graphOf("pair", `
  - {id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: z}}}`))
	s.AwaitGone(t, configMap, s.NS, "a-b")
	s.Await(t, configMap, s.NS, "a", suite.HasField("z", "data", "k"))
	s.Delete(t, graph.GraphKind, s.NS, "pair")
	s.AwaitGone(t, configMap, s.NS, "a")
	s.AwaitGone(t, graph.GraphKind, s.NS, "pair")
}

func managed(want ...string) suite.Check {
	return func(o *unstructured.Unstructured) error {
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "managedResources")
		var got []string
		for _, item := range list {
			m, _ := item.(map[string]any)
			got = append(got, fmt.Sprintf("%v=%v/%v", m["nodeID"], m["kind"], m["name"]))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("the inventory is %v, want %v", got, want)
		}
		return nil
	}
}

// TestAnInvalidGraphChangesNothing and says all problems.
func TestAnInvalidGraphChangesNothing(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, graphOf("typo", `
  - {id: a, def: {x: 1}}
  - {id: b, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {k: "${a.y}", l: "${c.d}"}}}`))
	s.Await(t, graph.GraphKind, s.NS, "typo", suite.All(
		condition("Accepted", "False", "InvalidGraph", "spec.nodes[1].template.data.k", "spec.nodes[1].template.data.l"),
		condition("Ready", "False", "InvalidGraph"), condition("Stalled", "True", "InvalidGraph"), suite.HasField(int64(1), "status", "observedGeneration")))
	s.Apply(t, graphOf("typo", `
  - {id: a, def: {x: 1}}
  - {id: b, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {k: "${string(a.x)}"}}}`))
	s.Await(t, graph.GraphKind, s.NS, "typo", condition("Ready", "True", ""))
	s.Apply(t, graphOf("typo", `
  - {id: b, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {k: "${a.x}"}}}`))
	s.Await(t, graph.GraphKind, s.NS, "typo", condition("Accepted", "False", "InvalidGraph"))
	s.Await(t, configMap, s.NS, "b", suite.HasField("1", "data", "k"))
	s.Delete(t, graph.GraphKind, s.NS, "typo") // needs no valid graph
	s.AwaitGone(t, configMap, s.NS, "b")
	s.AwaitGone(t, graph.GraphKind, s.NS, "typo")
}

// TestAGraphHasNoMoreRightsThanItsAccount: the account "default" may do nothing. Its deletion waits until the account may
// find out that nothing is left.
func TestAGraphHasNoMoreRightsThanItsAccount(t *testing.T) {
	s := suite.New(t)
	s.AllowImpersonation(t, "default")
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: Graph
metadata: {name: poor, namespace: $NS}
spec:
  nodes: [{id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: poor}}}]
`)
	s.Await(t, graph.GraphKind, s.NS, "poor", suite.All(condition("Accepted", "True", "Compiled"),
		condition("ResourcesConverged", "False", "ApplyFailed", "system:serviceaccount:"+s.NS+":default")))
	s.Delete(t, graph.GraphKind, s.NS, "poor")
	s.Await(t, graph.GraphKind, s.NS, "poor", condition("Ready", "False", "Deleting", "cannot list resource"))
	s.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: poor, namespace: $NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: default, namespace: $NS}]
`)
	s.AwaitGone(t, graph.GraphKind, s.NS, "poor")
}

// TestAKindThatComesLater lets the Graph go on without a touch.
func TestAKindThatComesLater(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, graphOf("late", `
  - {id: a, template: {apiVersion: $GROUP/v1, kind: Later, metadata: {name: late}, spec: {size: 1}}}
  - {id: b, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: late}, data: {size: "${string(a.spec.size)}"}}}`))
	s.Await(t, graph.GraphKind, s.NS, "late", condition("ResourcesConverged", "False", "WaitingForReadiness"))
	s.Apply(t, suite.CRDText("$GROUP", "v1", "Later", "{type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}"))
	s.Await(t, graph.GraphKind, s.NS, "late", condition("Ready", "True", ""))
	s.Await(t, configMap, s.NS, "late", suite.HasField("1", "data", "size"))
}

// TestASelectionAddsAndPrunes objects, in all namespaces that the account may read.
func TestASelectionAddsAndPrunes(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, graphOf("follower", `
  - id: sources
    ref: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, selector: {matchLabels: {follow: "yes"}}}}
  - id: copies
    forEach: [{source: "${sources}"}]
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${source.metadata.name}-copy"}, data: {of: "${source.metadata.name}"}}`))
	s.Await(t, graph.GraphKind, s.NS, "follower", condition("Ready", "True", ""))
	for _, name := range []string{"one", "two"} {
		s.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+", namespace: $NS, labels: {follow: \"yes\"}}}")
	}
	s.Await(t, configMap, s.NS, "one-copy", suite.IsPresent)
	s.Await(t, configMap, s.NS, "two-copy", suite.IsPresent)
	s.Patch(t, configMap, s.NS, "one", `{"metadata": {"labels": {"follow": null}}}`)
	s.AwaitGone(t, configMap, s.NS, "one-copy")
	if s.Get(t, configMap, s.NS, "two").GetLabels()[v1alpha1.ApplySetPartOfLabel] != "" {
		t.Error("what a Graph reads is marked as its own")
	}
}

// TestAGraphWithinAGraph has labels, an inventory and an order as one graph, and the rights of the same account.
func TestAGraphWithinAGraph(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, graphOf("shop", `
  - {id: shared, def: {app: shop}}
  - id: back
    graph:
      nodes:
        - {id: d, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${shared.app}"}}}
        - {id: s, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${d.metadata.name}-s"}}}
        - id: parts
          forEach: [{part: "${[shared.app]}"}]
          template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${part}-part"}}
  - {id: outer, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: outer}, data: {of: "${back.s.metadata.name}"}}}`))
	s.Await(t, graph.GraphKind, s.NS, "shop", suite.All(condition("Ready", "True", ""),
		managed("back/d=ConfigMap/shop", "back/parts=ConfigMap/shop-part", "back/s=ConfigMap/shop-s", "outer=ConfigMap/outer")))
	s.Await(t, configMap, s.NS, "outer", suite.HasField("shop-s", "data", "of"))
	if got := s.Get(t, configMap, s.NS, "shop").GetLabels()[v1alpha1.NodeIDLabel]; got != "back.d" {
		t.Errorf("the label of the node is %q", got)
	}
	s.Apply(t, graphOf("shop", `
  - id: back
    graph:
      nodes:
        - {id: d, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "shop"}}}`))
	s.AwaitGone(t, configMap, s.NS, "shop-s")
	s.AwaitGone(t, configMap, s.NS, "shop-part")
	s.AwaitGone(t, configMap, s.NS, "outer")
	s.Delete(t, graph.GraphKind, s.NS, "shop")
	s.AwaitGone(t, configMap, s.NS, "shop")
	s.AwaitGone(t, graph.GraphKind, s.NS, "shop")
}

// TestAGraphCreatesGraphs: each is independent, with an account and a status of its own.
func TestAGraphCreatesGraphs(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, graphOf("parent", `
  - id: child
    forEach: [{team: "${['red', 'blue']}"}]
    template:
      apiVersion: kro.run/v1alpha1
      kind: Graph
      metadata: {name: "${team}"}
      spec:
        serviceAccountName: builder
        nodes:
          - {id: q, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${team}"}}}
          - {id: copy, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${'${q.metadata.name}'}-copy"}}}`))
	for _, team := range []string{"red", "blue"} {
		s.Await(t, graph.GraphKind, s.NS, team, condition("Ready", "True", ""))
		s.Await(t, configMap, s.NS, team+"-copy", suite.IsPresent)
	}
	s.Await(t, graph.GraphKind, s.NS, "parent", condition("Ready", "True", ""))
	s.Delete(t, graph.GraphKind, s.NS, "parent")
	for _, name := range []string{"red", "blue", "red-copy", "blue-copy"} {
		s.AwaitGone(t, configMap, s.NS, name)
	}
	s.AwaitGone(t, graph.GraphKind, s.NS, "parent")
}

// TestKindsAreComputed from a CustomResourceDefinition that comes later: a selection of its objects, and an object for each
// of them, without a touch of the Graph. When another kind is computed, the objects of the former one go.
func TestKindsAreComputed(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-builder}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: builder, namespace: $NS}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-widgets}
rules:
- {apiGroups: [$GROUP], resources: ["*"], verbs: ["*"]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-widgets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $ID-widgets}
subjects: [{kind: ServiceAccount, name: builder, namespace: $NS}]
`)
	nodes := `
  - {id: of, ref: {apiVersion: v1, kind: ConfigMap, metadata: {name: of}}}
  - {id: crd, ref: {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.$GROUP}}}
  - id: widgets
    ref: {apiVersion: "${crd.spec.group}/${crd.spec.versions[0].name}", kind: "${crd.spec.names.kind}", metadata: {namespace: $NS, selector: {}}}
  - {id: names, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: names}, data: {all: "${widgets.map(w, w.metadata.name).join(',')}"}}}
  - {id: one, template: {apiVersion: v1, kind: "${of.data.kind}", metadata: {name: computed}}}`
	s.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: of, namespace: $NS}, data: {kind: ConfigMap}}")
	s.Apply(t, graphOf("dynamic", nodes))
	s.Await(t, graph.GraphKind, s.NS, "dynamic", suite.All(condition("Accepted", "True", "Compiled"), condition("ResourcesConverged", "False", "")))
	s.Await(t, configMap, s.NS, "computed", suite.IsPresent)

	s.Apply(t, suite.CRDText("$GROUP", "v1", "Widget", "{type: object}"))
	s.Await(t, configMap, s.NS, "names", suite.HasField("", "data", "all"))
	s.Apply(t, "{apiVersion: $GROUP/v1, kind: Widget, metadata: {name: w, namespace: $NS}}")
	s.Await(t, configMap, s.NS, "names", suite.HasField("w", "data", "all"))
	s.Await(t, graph.GraphKind, s.NS, "dynamic", condition("Ready", "True", ""))

	s.Patch(t, configMap, s.NS, "of", `{"data": {"kind": "Secret"}}`)
	s.Await(t, corev1.SchemeGroupVersion.WithKind("Secret"), s.NS, "computed", suite.IsPresent)
	s.AwaitGone(t, configMap, s.NS, "computed")
	s.Patch(t, configMap, s.NS, "of", `{"data": {"kind": "no kind"}}`)
	s.Await(t, graph.GraphKind, s.NS, "dynamic", condition("ResourcesConverged", "False", "ApplyFailed", "one"))
	s.Delete(t, graph.GraphKind, s.NS, "dynamic")
	s.AwaitGone(t, configMap, s.NS, "names")
	s.AwaitGone(t, corev1.SchemeGroupVersion.WithKind("Secret"), s.NS, "computed")
	s.AwaitGone(t, graph.GraphKind, s.NS, "dynamic")
}
