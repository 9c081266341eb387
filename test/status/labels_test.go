package status

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

const labelled = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-labelled}
spec:
  propagate: {labels: [team], annotations: ["*"]}
  schema:
    apiVersion: v1alpha1
    kind: Labelled
    group: $GROUP
    types:
      Range: {min: integer | default=1, max: integer | default=3}
    spec:
      size: "string | default=5 minimum=1"
      bounds: Range | validation="self.min <= self.max"
      named: Range | validation="self.min <= self.max" message="min must not exceed max"
    status: {state: "${plain.metadata.name}"}
  resources:
    - id: plain
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-plain", labels: "${schema.metadata.labels}"}}
    - id: copied
      template:
        apiVersion: v1
        kind: Service
        metadata: {name: "${schema.metadata.name}-copied", annotations: "${plain.metadata.annotations}"}
        spec: {ports: [{port: 80}], selector: "${plain.metadata.labels.merge({'app': 'x'})}"}
    - id: others
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-others", labels: {other: own}}, data: {max: "${string(schema.spec.bounds.max)}"}}
`

func TestLabelsOfAnInstanceReachItsChildren(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, labelled)
	s.Await(t, suite.RGD, "", s.Name("labelled"), suite.All(testkit.IsReady, suite.HasCondition("GraphAccepted", "True", "", `marker "minimum" does not apply to a string`, "spec.schema.status.state")))
	kind, service := s.Kind("Labelled"), schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	put := func(name, metadata string) {
		t.Helper()
		s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Labelled\nmetadata: {name: "+name+", namespace: $NS"+metadata+"}\nspec: {}\n")
	}
	label := func(key string, value any) suite.Check { return suite.HasField(value, "metadata", "labels", key) }
	put("without", "")
	put("with", ", labels: {team: web, other: x}, annotations: {note: hello}")
	for _, name := range []string{"without", "with"} {
		s.Await(t, kind, s.NS, name, suite.All(testkit.IsReady, suite.HasField("ACTIVE", "status", "state")))
	}
	s.Await(t, suite.ConfigMap, s.NS, "without-plain", suite.All(label("applyset.kubernetes.io/id", nil), label("kro.run/owned", "true")))
	s.Await(t, service, s.NS, "without-copied", suite.HasField("map[app:x]", "spec", "selector"))
	s.Await(t, suite.ConfigMap, s.NS, "with-plain", suite.All(label("team", "web"), label("other", "x"), label("applyset.kubernetes.io/id", nil)))
	s.Await(t, service, s.NS, "with-copied", suite.All(suite.HasField("map[app:x other:x team:web]", "spec", "selector"), label("team", "web"), label("other", nil)))
	s.Await(t, suite.ConfigMap, s.NS, "with-others", suite.All(label("team", "web"), label("other", "own"),
		suite.HasField("hello", "metadata", "annotations", "note"), suite.HasField("3", "data", "max")))

	t.Log("changed labels reach the children, and so do removed ones")
	put("with", ", labels: {team: db}")
	s.Await(t, suite.ConfigMap, s.NS, "with-plain", suite.All(label("team", "db"), label("other", nil)))
	s.Await(t, suite.ConfigMap, s.NS, "with-others", suite.All(label("team", "db"), label("other", "own"), suite.HasField(nil, "metadata", "annotations", "note")))

	t.Log("the API server says which rule an instance violates")
	for field, want := range map[string]string{"bounds": "failed rule: self.min <= self.max", "named": "min must not exceed max"} {
		_, err := s.TryApply(t, testkit.Parse(t, s.Expand("\napiVersion: $GROUP/v1alpha1\nkind: Labelled\nmetadata: {name: invalid, namespace: $NS}\nspec: {"+field+": {min: 4}}\n"))[0])
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", field, err, want)
		}
	}
}
