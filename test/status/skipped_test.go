package status

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestAConditionOnAnotherResourceIsVisible(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Graph("Choosy", `spec: {mode: string}, status: {leaf: "${leaf.metadata.name}"}`, `
    - id: settings
      externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}
    - id: optional
      includeWhen: ["${settings.data.optional == 'yes'}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: optional}}
    - id: leaf
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: leaf}, data: {from: "${optional.metadata.name}"}}
`))
	set := func(data string) {
		t.Helper()
		s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: $NS}\ndata: "+data+"\n")
	}
	says := func(want string) suite.Check {
		return func(o *unstructured.Unstructured) error {
			skipped, _, _ := unstructured.NestedSlice(o.Object, "status", "skipped")
			var texts []string
			for _, entry := range skipped {
				m := entry.(map[string]any)
				texts = append(texts, fmt.Sprint(m["node"], " by ", m["by"], " ", m["inputs"]))
			}
			if got := strings.Join(texts, "; "); got != want {
				return fmt.Errorf("it says %q, not %q", got, want)
			}
			return nil
		}
	}
	kind := s.Kind("Choosy")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Choosy\nmetadata: {name: c, namespace: $NS}\nspec: {mode: a}\n")
	s.Await(t, kind, s.NS, "c", suite.All(says(""), suite.HasCondition("ResourcesReady", "False", "WaitingForExternal")))
	set("{}")
	s.Await(t, kind, s.NS, "c", suite.All(says(""), suite.HasCondition("ResourcesReady", "False", "WaitingForField", "optional waits for unresolved settings.data.optional")))
	set("{optional: \"no\"}")
	left := `optional by optional [settings.data.optional is "no"]; leaf by optional [settings.data.optional is "no"]`
	s.Await(t, kind, s.NS, "c", suite.All(testkit.IsReady, says(left)))
	set("{optional: \"yes\"}")
	s.Await(t, kind, s.NS, "c", suite.All(testkit.IsReady, says(""), suite.HasField("leaf", "status", "leaf")))
	set("{optional: \"no\"}")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "leaf")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "optional")
	s.Await(t, kind, s.NS, "c", suite.All(testkit.IsReady, says(left), suite.HasField(nil, "status", "leaf")))
}
