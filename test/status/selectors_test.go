package status

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestASelectorReferenceFollowsItsMatches(t *testing.T) {
	s := suite.New(t)
	other := testkit.Namespace(t, s.Config)
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-gatherer}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Gatherer
    group: $GROUP
    spec: {team: string, extra: object}
    status:
      near: ${size(near)}
      everywhere: ${everywhere.map(c, c.metadata.namespace + "/" + c.metadata.name)}
      namespaces: ${namespaces.map(n, n.metadata.name)}
  resources:
    - id: near
      externalRef:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          namespace: ${schema.metadata.namespace}
          selector:
            matchExpressions:
              - {key: $ID-team, operator: In, values: ["${schema.spec.team}"]}
    - id: everywhere
      externalRef:
        apiVersion: v1
        kind: ConfigMap
        metadata: {selector: {matchLabels: {$ID-team: "${schema.spec.team}"}}}
    - id: namespaces
      externalRef:
        apiVersion: v1
        kind: Namespace
        metadata: {selector: "${schema.spec.extra}"}
    - id: copies
      forEach: [{config: "${near}"}]
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "${config.metadata.name}-copy"}
        data: {value: "${config.data.value}"}
`)
	put := func(name, namespace, team, value string) {
		t.Helper()
		s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+", namespace: "+namespace+", labels: {$ID-team: "+team+"}}\ndata: {value: \""+value+"\"}\n")
	}
	instance := func(spec string) {
		t.Helper()
		s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Gatherer\nmetadata: {name: g, namespace: $NS}\nspec: "+spec+"\n")
	}
	here := "kubernetes.io/metadata.name: " + s.NS
	instance("{team: web, extra: {matchLabels: {" + here + "}}}")
	kind := s.Kind("Gatherer")
	s.Await(t, kind, s.NS, "g", suite.All(testkit.IsReady, suite.HasField(0, "status", "near"), suite.HasField("["+s.NS+"]", "status", "namespaces")))

	put("a", s.NS, "web", "1")
	put("b", other, "web", "2")
	put("c", s.NS, "api", "3")
	awaitItems(t, s, "copies", "a-copy")
	s.Await(t, kind, s.NS, "g", suite.All(testkit.IsReady, suite.HasField(1, "status", "near"), func() suite.Check {
		if s.NS < other {
			return suite.HasField("["+s.NS+"/a "+other+"/b]", "status", "everywhere")
		}
		return suite.HasField("["+other+"/b "+s.NS+"/a]", "status", "everywhere")
	}()))

	put("a", s.NS, "web", "changed")
	s.Await(t, suite.ConfigMap, s.NS, "a-copy", suite.HasField("changed", "data", "value"))
	put("c", s.NS, "web", "3") // comes by its label
	awaitItems(t, s, "copies", "a-copy", "c-copy")
	put("a", s.NS, "api", "1") // and goes by it
	awaitItems(t, s, "copies", "c-copy")
	s.Delete(t, suite.ConfigMap, s.NS, "c")
	awaitItems(t, s, "copies")

	instance("{team: api, extra: {matchLabels: {" + here + "}}}")
	awaitItems(t, s, "copies", "a-copy")
	instance("{team: api, extra: {matchLabel: {a: b}}}")
	s.Await(t, kind, s.NS, "g", suite.All(suite.HasField("["+s.NS+"]", "status", "namespaces"),
		suite.HasCondition("ResourcesReady", "False", "EvaluationFailed", `namespaces waits for metadata.selector (json: unknown field "matchLabel")`)))
	s.Delete(t, kind, s.NS, "g")
	s.AwaitGone(t, kind, s.NS, "g")
	s.Await(t, suite.ConfigMap, s.NS, "a", suite.IsPresent)
}

func TestAClusterScopedInstanceSelectsToo(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Graph("Census", `scope: Cluster, spec: {label: string}, status: {names: "${all.map(c, c.metadata.name)}"}`, `
    - id: all
      externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: {matchExpressions: [{key: "${schema.spec.label}", operator: Exists}]}}}
`))
	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: counted, namespace: $NS, labels: {$ID-counted: \"\"}}\n")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Census\nmetadata: {name: $ID-all}\nspec: {label: $ID-counted}\n")
	s.Await(t, s.Kind("Census"), "", s.Name("all"), suite.All(testkit.IsReady, suite.HasField("[counted]", "status", "names")))
	s.Delete(t, s.Kind("Census"), "", s.Name("all"))
	s.AwaitGone(t, s.Kind("Census"), "", s.Name("all"))
}
