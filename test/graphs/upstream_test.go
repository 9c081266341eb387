package graphs

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// The behaviour that kro's own tests of Graphs check from outside, as far as the other tests here don't.

// TestNodesComeAndGo by includeWhen, with the nodes that need them; by the lists of iterators, in all combinations; and by name.
func TestNodesComeAndGo(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	of := func(use, zones, name string) string {
		return graphOf("changing", `
  - {id: settings, def: {use: `+use+`, zones: `+zones+`}}
  - {id: a, includeWhen: ["${settings.use}"], template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: x}}}
  - {id: b, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {k: "${a.data.k}"}}}
  - {id: c, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "c-${b.data.k}"}}}
  - id: zones
    forEach: [{zone: "${settings.zones}"}, {size: "${['s', 'l']}"}]
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${zone}-${size}"}}
  - {id: named, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: `+name+`}}}`)
	}
	s.Apply(t, of("true", "[east, west]", "first"))
	s.Await(t, graph.GraphKind, s.NS, "changing", suite.All(condition("Ready", "True", ""), managed("named=ConfigMap/first", "a=ConfigMap/a", "zones=ConfigMap/east-s",
		"zones=ConfigMap/east-l", "zones=ConfigMap/west-s", "zones=ConfigMap/west-l", "b=ConfigMap/b", "c=ConfigMap/c-x")))
	s.Apply(t, of("false", "[west]", "second"))
	s.Await(t, graph.GraphKind, s.NS, "changing", suite.All(condition("Ready", "True", ""),
		managed("named=ConfigMap/second", "zones=ConfigMap/west-s", "zones=ConfigMap/west-l")))
	for _, gone := range []string{"a", "b", "c-x", "east-s", "east-l", "first"} {
		s.AwaitGone(t, configMap, s.NS, gone)
	}
	s.Apply(t, of("true", "[]", "second"))
	s.Await(t, graph.GraphKind, s.NS, "changing", suite.All(condition("Ready", "True", ""), managed("named=ConfigMap/second", "a=ConfigMap/a", "b=ConfigMap/b", "c=ConfigMap/c-x")))
}

// TestObjectsAreRestored when somebody deletes or changes them, also those after a node that is not ready; and a node that
// has been left out is not.
func TestObjectsAreRestored(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	of := func(use string) string {
		return graphOf("steady", `
  - {id: settings, def: {use: `+use+`}}
  - {id: unready, readyWhen: ["${unready.data.k == 'never'}"], template: {apiVersion: v1, kind: ConfigMap, metadata: {name: unready}, data: {k: x}}}
  - {id: after, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: after}, data: {k: "${unready.data.k}"}}}
  - {id: extra, includeWhen: ["${settings.use}"], template: {apiVersion: v1, kind: ConfigMap, metadata: {name: extra}}}`)
	}
	s.Apply(t, of("true"))
	s.Await(t, graph.GraphKind, s.NS, "steady", condition("ResourcesConverged", "False", "WaitingForReadiness", "unready"))
	former := s.Await(t, configMap, s.NS, "after", suite.HasField("x", "data", "k")).GetUID()
	s.Delete(t, configMap, s.NS, "after")
	s.Await(t, configMap, s.NS, "after", func(o *unstructured.Unstructured) error {
		if o == nil || o.GetUID() == former {
			return errors.New("it is not created again")
		}
		return nil
	})
	s.Patch(t, configMap, s.NS, "after", `{"data": {"k": "changed", "theirs": "v"}}`)
	s.Await(t, configMap, s.NS, "after", suite.All(suite.HasField("x", "data", "k"), suite.HasField("v", "data", "theirs")))
	s.Apply(t, of("false"))
	s.AwaitGone(t, configMap, s.NS, "extra")
	s.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: extra, namespace: $NS}, data: {mine: v}}")
	s.Patch(t, configMap, s.NS, "after", `{"data": {"k": "changed"}}`)
	s.Await(t, configMap, s.NS, "after", suite.HasField("x", "data", "k")) // so it was reconciled
	if err := suite.HasField("v", "data", "mine")(s.Get(t, configMap, s.NS, "extra")); err != nil {
		t.Errorf("a node that is left out has an object: %v", err)
	}
}

// TestAMissingObjectIsAwaited, and so is one that goes again.
func TestAMissingObjectIsAwaited(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, graphOf("reader", `
  - {id: source, ref: {apiVersion: v1, kind: ConfigMap, metadata: {name: source}}}
  - {id: copy, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: copy}, data: {k: "${source.data.k}"}}}`))
	missing := condition("ResourcesConverged", "False", "WaitingForReadiness", "source")
	s.Await(t, graph.GraphKind, s.NS, "reader", missing)
	s.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: source, namespace: $NS}, data: {k: v}}")
	s.Await(t, graph.GraphKind, s.NS, "reader", condition("Ready", "True", ""))
	s.Delete(t, configMap, s.NS, "source")
	s.Await(t, graph.GraphKind, s.NS, "reader", missing)
	s.Await(t, configMap, s.NS, "copy", suite.HasField("v", "data", "k"))
}

// TestAFieldThatAKindGetsLater makes a Graph valid without a touch.
func TestAFieldThatAKindGetsLater(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, suite.CRDText("$GROUP", "v1", "Growing", "{type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}"))
	s.Apply(t, graphOf("early", "\n  - {id: a, template: {apiVersion: $GROUP/v1, kind: Growing, metadata: {name: early}, spec: {size: 1, color: red}}}"))
	s.Await(t, graph.GraphKind, s.NS, "early", condition("Accepted", "False", "InvalidGraph", "spec.nodes[0].template.spec.color"))
	s.Apply(t, suite.CRDText("$GROUP", "v1", "Growing", "{type: object, properties: {spec: {type: object, properties: {size: {type: integer}, color: {type: string}}}}}"))
	s.Await(t, graph.GraphKind, s.NS, "early", condition("Ready", "True", ""))
	s.Await(t, s.Kind("Growing").GroupKind().WithVersion("v1"), s.NS, "early", suite.HasField("red", "spec", "color"))
}

// TestAPatchOfANestedGraphIsReleased with its node.
func TestAPatchOfANestedGraphIsReleased(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, theirs)
	s.Apply(t, graphOf("outer", `
  - {id: shared, def: {team: blue}}
  - {id: inner, graph: {nodes: [{id: p, patch: {apiVersion: v1, kind: ConfigMap, metadata: {name: theirs}, data: {team: "${shared.team}"}}}]}}`))
	s.Await(t, configMap, s.NS, "theirs", hasData(1, "team=blue", "their=data"))
	s.Await(t, graph.GraphKind, s.NS, "outer", suite.All(condition("Ready", "True", ""), contributes("ConfigMap/theirs")))
	s.Apply(t, graphOf("outer", "\n  - {id: shared, def: {team: blue}}"))
	s.Await(t, configMap, s.NS, "theirs", hasData(0, "their=data"))
	s.Await(t, graph.GraphKind, s.NS, "outer", suite.All(condition("Ready", "True", ""), contributes()))
}
