package compositions

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// graphComposition is the kind app, composed by a graph with the given spec.
func graphComposition(spec string) string {
	definition, _, _ := strings.Cut(app, "---")
	return definition + "---" + suite.Composition("app", "App", `  - step: graph
    functionRef: {name: function-graph}
    input:
      apiVersion: graph.fn.espalier.dev/v1alpha1
      kind: Graph
      spec:
`+spec)
}

// many is the kind app, composed by a graph with a collection, a selector and a variable.
var many = graphComposition(`        resources:
        - id: words
          value: "${schema.spec.size.split('-')}"
        - id: base
          template: {apiVersion: v1, kind: ConfigMap, data: {count: "${string(size(words))}"}}
        - id: cells
          forEach: [{word: "${words}"}]
          template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-${word}"}, data: {base: "${base.metadata.name}"}}
          readyWhen: ["${each.data.base != ''}"]
        - id: found
          externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: "${schema.metadata.namespace}", selector: {matchExpressions: [{key: color, operator: In, values: [red, green]}]}}}
          readyWhen: ["${true}"]
        status: {address: "${cells.map(c, c.metadata.name).join(',')} ${found.map(f, f.metadata.name).join(',')}"}
`)

func TestAGraphOfACompositeHasCollectionsAndSelectors(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, many)
	s.Apply(t, strings.Replace(shopText, "small", "a-b", 1))
	kind := s.Kind("App")
	shows := func(want string) {
		t.Helper()
		s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
			if got := text(o, "status", "address"); got != want {
				return errors.New("it shows " + got + ", not " + want)
			}
			return available(o)
		})
	}
	shows("shop-a,shop-b ")
	made := composedConfigMaps(t, s, "shop")
	if len(made) != 3 || made["cells[shop-a]"] == nil || text(made["cells[shop-b]"], "data", "base") != made["base"].GetName() {
		t.Fatalf("there is %v", made)
	}
	uid := made["cells[shop-b]"].GetUID()

	t.Log("items are added and removed, and the others keep their objects; selected objects are updated")
	s.Apply(t, strings.Replace(shopText, "small", "b-c", 1))
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: red, labels: {color: red}}}`)
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: blue, labels: {color: blue}}}`)
	s.AwaitGone(t, suite.ConfigMap, s.NS, "shop-a")
	shows("shop-b,shop-c red")
	if now := composedConfigMaps(t, s, "shop")["cells[shop-b]"]; now == nil || now.GetUID() != uid {
		t.Errorf("an item was recreated: %v", now)
	}

	t.Log("the dependency of the items is deleted after all of them")
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: shop-c, finalizers: [example.com/hold]}}`)
	s.Delete(t, kind, s.NS, "shop")
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Ready", "False", "Deleting", "example.com/hold")
	})
	base := made["base"].GetName()
	if below := s.Get(t, suite.ConfigMap, s.NS, base); below == nil || below.GetDeletionTimestamp() != nil {
		t.Errorf("what is below has gone before an item that is above: %v", below)
	}
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: shop-c, finalizers: []}}`)
	s.AwaitGone(t, kind, s.NS, "shop")
	s.AwaitGone(t, suite.ConfigMap, s.NS, base)
}
