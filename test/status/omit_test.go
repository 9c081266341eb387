package status

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestAFieldCanBeOmittedAndSetAgain(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-sparse}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Sparse
    group: $GROUP
    spec: {pinned: boolean, labels: "map[string]string"}
    status:
      keys: ${schema.spec.labels.transformList(k, v, k).sort()}
      sizes: ${schema.spec.labels.transformMap(k, v, size(v))}
      names: "${[map.metadata.name, map.metadata.namespace]}"
  resources:
    - id: map
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: sparse, annotations: "${schema.spec.pinned ? {'pinned': 'yes'} : omit()}"}
        data: {always: here, sometimes: "${schema.spec.pinned ? 'here' : omit()}", list: "${schema.spec.labels.transformList(k, v, k + '=' + v).sort().join(' ')}"}
`)
	put := func(pinned string) {
		t.Helper()
		s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Sparse\nmetadata: {name: s, namespace: $NS}\nspec: {pinned: "+pinned+", labels: {b: two, a: one}}\n")
	}
	for _, pinned := range []string{"false", "true", "false"} {
		put(pinned)
		var there, annotation any
		if pinned == "true" {
			there, annotation = "here", "yes"
		}
		s.Await(t, suite.ConfigMap, s.NS, "sparse", suite.All(suite.HasField("here", "data", "always"), suite.HasField(there, "data", "sometimes"), suite.HasField(annotation, "metadata", "annotations", "pinned"), suite.HasField("a=one b=two", "data", "list")))
	}
	s.Await(t, s.Kind("Sparse"), s.NS, "s", suite.All(testkit.IsReady,
		suite.HasField("[a b]", "status", "keys"), suite.HasField("map[a:3 b:3]", "status", "sizes"), suite.HasField("[sparse "+s.NS+"]", "status", "names")))
}
