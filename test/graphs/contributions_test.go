package graphs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

const contributorPrefix = "kro-graphengine.patch."

// contributors are the managers of contributions to an object.
func contributors(o *unstructured.Unstructured) []string {
	return ownership.Managers(o, func(e ownership.Entry) bool { return strings.HasPrefix(e.Manager, contributorPrefix) })
}

// hasData checks the data and the labels of a ConfigMap, as sorted "key=value", and how many contributions it has.
func hasData(contributions int, want ...string) suite.Check {
	return func(o *unstructured.Unstructured) error {
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		maps.Copy(data, o.GetLabels())
		var got []string
		for key, value := range data {
			got = append(got, key+"="+value)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("it has %q, want %q", got, want)
		}
		if by := contributors(o); len(by) != contributions {
			return fmt.Errorf("contributors: %q, want %d", by, contributions)
		}
		return nil
	}
}

// contributes checks which objects the status records.
func contributes(want ...string) suite.Check {
	return func(o *unstructured.Unstructured) error {
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "contributions")
		var got []string
		for _, item := range list {
			c, _ := item.(map[string]any)
			got = append(got, fmt.Sprintf("%v/%v", c["kind"], c["name"]))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("it records %q, want %q", got, want)
		}
		return nil
	}
}

const theirs = "{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs, namespace: $NS}, data: {their: data}}"

// TestFieldsAreContributedAndReleased: a patch waits for its object, refuses the fields of another manager, restores its
// own, and leaves with them only.
func TestFieldsAreContributedAndReleased(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	withPatch := func(data string) string {
		return graphOf("contributor", `
  - {id: own, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: own}}}
  - {id: p, patch: {apiVersion: v1, kind: ConfigMap, metadata: {name: theirs, labels: {team: blue}}, data: {`+data+`}}}`)
	}
	s.Apply(t, withPatch("mine: v"))
	s.Await(t, graph.GraphKind, s.NS, "contributor", suite.All(condition("ResourcesConverged", "False", "WaitingForReadiness", "theirs"), contributes()))
	s.Apply(t, theirs)
	s.Await(t, configMap, s.NS, "theirs", hasData(1, "mine=v", "team=blue", "their=data"))
	s.Await(t, graph.GraphKind, s.NS, "contributor", suite.All(condition("Ready", "True", ""), contributes("ConfigMap/theirs"), managed("own=ConfigMap/own")))
	s.Patch(t, configMap, s.NS, "theirs", `{"data": {"mine": null}, "metadata": {"labels": {"team": null}}}`)
	s.Await(t, configMap, s.NS, "theirs", hasData(1, "mine=v", "team=blue", "their=data"))
	s.Patch(t, configMap, s.NS, "theirs", `{"data": {"mine": "changed"}}`)
	s.Await(t, graph.GraphKind, s.NS, "contributor", condition("ResourcesConverged", "False", "FieldManagerConflict", "data.mine", "somebody"))
	s.Patch(t, configMap, s.NS, "theirs", `{"data": {"mine": null}}`)
	s.Await(t, graph.GraphKind, s.NS, "contributor", condition("Ready", "True", ""))
	s.Apply(t, withPatch("yours: w")) // the same node with another field
	s.Await(t, configMap, s.NS, "theirs", hasData(1, "team=blue", "their=data", "yours=w"))
	s.Apply(t, graphOf("contributor", `
  - {id: own, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: own}}}
  - {id: next, patch: {apiVersion: v1, kind: ConfigMap, metadata: {name: theirs}, data: {yours: x}}}`)) // takes the field over from the former node
	s.Await(t, configMap, s.NS, "theirs", hasData(1, "their=data", "yours=x"))
	s.Apply(t, graphOf("contributor", "[{id: own, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: own}}}]"))
	s.Await(t, configMap, s.NS, "theirs", hasData(0, "their=data"))
	s.Await(t, graph.GraphKind, s.NS, "contributor", suite.All(condition("Ready", "True", ""), contributes()))
}

func TestAConflictOfAContribution(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, theirs)
	s.Apply(t, graphOf("contributor", `
  - {id: p, patch: {apiVersion: v1, kind: ConfigMap, metadata: {name: theirs}, data: {their: taken, mine: v}}}`))
	s.Await(t, graph.GraphKind, s.NS, "contributor",
		condition("ResourcesConverged", "False", "FieldManagerConflict", "data.their of ConfigMap "+s.NS+"/theirs is set by test to another value"))
	s.Await(t, configMap, s.NS, "theirs", hasData(0, "their=data"))
	s.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs, namespace: $NS}, data: {other: data}}") // which releases the field
	s.Await(t, configMap, s.NS, "theirs", hasData(1, "mine=v", "other=data", "their=taken"))
	s.Await(t, graph.GraphKind, s.NS, "contributor", condition("Ready", "True", ""))

	s.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: others, namespace: $NS}, data: {their: data}}")
	s.Apply(t, graphOf("contributor", `
  - {id: q, patch: {apiVersion: v1, kind: ConfigMap, metadata: {name: others}, data: {mine: w}}}`)) // another node and object
	s.Await(t, configMap, s.NS, "others", hasData(1, "mine=w", "their=data"))
	s.Await(t, configMap, s.NS, "theirs", hasData(0, "other=data"))
	s.Await(t, graph.GraphKind, s.NS, "contributor", contributes("ConfigMap/others"))
	s.Delete(t, graph.GraphKind, s.NS, "contributor")
	s.AwaitGone(t, graph.GraphKind, s.NS, "contributor")
	s.Await(t, configMap, s.NS, "others", hasData(0, "their=data"))
}

// TestTheStatusOfManyObjects: the first of the claims is active. One that is gone leaves no record behind.
func TestTheStatusOfManyObjects(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, suite.CRDText("$GROUP", "v1", "Claim", "{type: object, properties: {spec: {type: object, properties: {rank: {type: integer}}}, "+
		"status: {type: object, properties: {active: {type: boolean}, seen: {type: string}}}}}"))
	claim := func(name string, rank int) {
		s.Apply(t, fmt.Sprintf("{apiVersion: $GROUP/v1, kind: Claim, metadata: {name: %s, namespace: $NS}, spec: {rank: %d}}", name, rank))
	}
	claim("late", 2)
	claim("early", 1)
	kind := s.Kind("Claim").GroupKind().WithVersion("v1")
	s.SetStatus(t, kind, s.NS, "early", map[string]any{"seen": "yes", "active": false})
	s.Apply(t, graphOf("lease", `
  - {id: claims, ref: {apiVersion: $GROUP/v1, kind: Claim, metadata: {namespace: $NS, selector: {}}}}
  - {id: winner, def: "${claims.sortBy(c, c.spec.rank)[0].metadata.name}"}
  - id: active
    forEach: [{c: "${claims}"}]
    patch:
      apiVersion: $GROUP/v1
      kind: Claim
      metadata: {name: "${c.metadata.name}", namespace: "${c.metadata.namespace}"}
      status: {active: "${c.metadata.name == winner}"}`))
	s.Await(t, kind, s.NS, "early", suite.All(suite.HasField(true, "status", "active"), suite.HasField("yes", "status", "seen")))
	s.Await(t, kind, s.NS, "late", suite.HasField(false, "status", "active"))
	s.Await(t, graph.GraphKind, s.NS, "lease", suite.All(condition("Ready", "True", ""), contributes("Claim/early", "Claim/late")))
	claim("first", 0)
	s.Await(t, kind, s.NS, "first", suite.HasField(true, "status", "active"))
	s.Await(t, kind, s.NS, "early", suite.HasField(false, "status", "active"))
	s.Delete(t, kind, s.NS, "first")
	s.Await(t, kind, s.NS, "early", suite.HasField(true, "status", "active"))
	s.Await(t, graph.GraphKind, s.NS, "lease", contributes("Claim/early", "Claim/late"))
	s.Delete(t, graph.GraphKind, s.NS, "lease")
	s.AwaitGone(t, graph.GraphKind, s.NS, "lease")
	s.Await(t, kind, s.NS, "early", suite.All(suite.HasField("yes", "status", "seen"), func(o *unstructured.Unstructured) error {
		if _, set, _ := unstructured.NestedBool(o.Object, "status", "active"); set || len(contributors(o)) > 0 {
			return fmt.Errorf("it still has the status of the Graph: %v", o.Object["status"])
		}
		return nil
	}))
}

// TestTwoGraphsOfOneObject: the second one waits, whatever fields it has, until the object of the first is gone.
func TestTwoGraphsOfOneObject(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	of := func(name, key string) string {
		return graphOf(name, "[{id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {"+key+": v}}}]")
	}
	s.Apply(t, of("one", "first"))
	s.Await(t, graph.GraphKind, s.NS, "one", condition("Ready", "True", ""))
	s.Apply(t, of("two", "second"))
	s.Await(t, graph.GraphKind, s.NS, "two", condition("ResourcesConverged", "False", "FieldManagerConflict", "shared"))
	s.Await(t, configMap, s.NS, "shared", suite.All(suite.HasField(map[string]any{"first": "v"}, "data"), suite.IsPresent))
	s.Patch(t, configMap, s.NS, "shared", `{"data": {"first": "changed"}}`)
	s.Await(t, configMap, s.NS, "shared", suite.HasField("v", "data", "first"))
	s.Delete(t, graph.GraphKind, s.NS, "one")
	s.AwaitGone(t, graph.GraphKind, s.NS, "one")
	s.Await(t, configMap, s.NS, "shared", suite.HasField(map[string]any{"second": "v"}, "data"))
	s.Await(t, graph.GraphKind, s.NS, "two", condition("Ready", "True", ""))
}

// TestTwoGraphsContributeToOneObject: other fields side by side, and the same field one after the other.
func TestTwoGraphsContributeToOneObject(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, theirs)
	of := func(name, data string) string {
		return graphOf(name, "[{id: p, patch: {apiVersion: v1, kind: ConfigMap, metadata: {name: theirs}, data: {"+data+"}}}]")
	}
	s.Apply(t, of("one", "first: v"))
	s.Await(t, configMap, s.NS, "theirs", hasData(1, "first=v", "their=data"))
	s.Apply(t, of("two", "second: v"))
	s.Await(t, configMap, s.NS, "theirs", hasData(2, "first=v", "second=v", "their=data"))
	s.Apply(t, of("two", "first: w"))
	s.Await(t, graph.GraphKind, s.NS, "two", condition("ResourcesConverged", "False", "FieldManagerConflict", "data.first", contributorPrefix))
	s.Await(t, configMap, s.NS, "theirs", suite.HasField("v", "data", "first"))
	s.Delete(t, graph.GraphKind, s.NS, "one")
	s.Await(t, configMap, s.NS, "theirs", hasData(1, "first=w", "their=data"))
	s.Await(t, graph.GraphKind, s.NS, "two", condition("Ready", "True", ""))
}
