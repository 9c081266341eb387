package archive

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

const shopDefinition = `
apiVersion: apiextensions.crossplane.io/v1
kind: CompositeResourceDefinition
metadata: {name: xshops.example.com}
spec:
  group: example.com
  names: {kind: XShop, plural: xshops}
  claimNames: {kind: Shop, plural: shops}
  versions: [{name: v1alpha1, served: true, referenceable: true}]
`

const shopComposition = `
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: shop, annotations: {example.com/of: somebody}}
spec:
  compositeTypeRef: {apiVersion: example.com/v1alpha1, kind: XShop}
  mode: Pipeline
  pipeline:
  - step: render
    functionRef: {name: function-patch-and-transform}
    input: {kind: Resources, resources: [{name: bucket, base: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Bucket}}, {name: a, base: {apiVersion: kro.run/v1, kind: A}}]}
    credentials: [{name: key, source: Secret, secretRef: {namespace: system, name: key}}, {name: none, source: None}]
  - step: graph
    functionRef: {name: function-graph}
    input: {resources: [{id: network, template: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Network, metadata: {name: "${schema.metadata.uid}"}}}]}
`

func TestADefinitionOfCompositesDefinesTwoKinds(t *testing.T) {
	d := parse(t, shopDefinition)
	var got []string
	for _, gvk := range Defines(d) {
		got = append(got, gvk.String())
	}
	if diff := cmp.Diff([]string{"example.com/v1alpha1, Kind=XShop", "example.com/v1alpha1, Kind=Shop"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDependenciesOfAComposition(t *testing.T) {
	c := parse(t, shopComposition)
	if diff := cmp.Diff([]string{"function-patch-and-transform", "function-graph"}, FunctionsOf(c)); diff != "" {
		t.Errorf("functions, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([][2]string{{"system", "key"}}, SecretsOf(c)); diff != "" {
		t.Errorf("Secrets, -want +got:\n%s", diff)
	}
	var kinds []string
	for _, gvk := range TemplateKinds(c) {
		kinds = append(kinds, gvk.Kind)
	}
	if diff := cmp.Diff([]string{"Bucket", "A", "Network"}, kinds); diff != "" {
		t.Errorf("kinds, -want +got:\n%s", diff)
	}
	if ComposesFor(c) != (schema.GroupKind{Group: "example.com", Kind: "XShop"}) || !ReadsUID(c) {
		t.Errorf("the composition is for %s, or its use of metadata.uid is not found", ComposesFor(c))
	}
}

func TestDependenciesOfADefinitionOfComposites(t *testing.T) {
	composed := Composed{}
	composed.Add(ComposesFor(parse(t, shopComposition)), TemplateKinds(parse(t, shopComposition))...)
	all := []*unstructured.Unstructured{definition(t, "a", "A", "B"), definition(t, "b", "B"), definition(t, "c", "C"), parse(t, shopDefinition)}
	chosen, _ := WithDependencies(all, []string{"xshops.example.com"}, composed)
	if got := names(chosen); got != "xshops.example.com a b" {
		t.Errorf("chosen are %s", got)
	}
}

// TestAnImportedCompositionKeepsItsRevision checks that the annotation of an import leads to no
// new revision.
func TestAnImportedCompositionKeepsItsRevision(t *testing.T) {
	for name, annotations := range map[string]map[string]string{"with annotations": {"example.com/of": "somebody"}, "without": nil} {
		o := parse(t, shopComposition)
		o.SetAnnotations(annotations)
		revision := xrd.NextRevision(as[v1.Composition](t, o), nil).Create
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(revision)
		if err != nil {
			t.Fatal(err)
		}
		history := []*unstructured.Unstructured{Imported(Strip(&unstructured.Unstructured{Object: raw}), "import-x/uid")}
		again := Imported(Strip(o), "import-x/uid")
		if again.GetAnnotations()[espalier.ImportAnnotation] == "" || !RevisionsMatch([]*unstructured.Unstructured{again}, history) {
			t.Errorf("%s: the import leads to a new revision", name)
		}
		again.SetLabels(map[string]string{"team": "a"})
		if RevisionsMatch([]*unstructured.Unstructured{again}, history) {
			t.Errorf("%s: a change leads to no revision", name)
		}
	}
}

func as[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSelectedInstancesIncludeTheirDescendants(t *testing.T) {
	key := func(kind, namespace string) object.Key {
		return object.Key{Group: "example.com", Kind: kind, Namespace: namespace, Name: "a"}
	}
	claim, composite, below, other := key("Shop", "prod"), key("XShop", ""), key("Shelf", "shelves"), key("XShop", "")
	other.Name = "b"
	all := map[object.Key]Parent{claim: {}, composite: {claim}, below: {composite}, other: {key("Shop", "test")}}
	got := Selection{Namespaces: []string{"prod"}}.SelectInstances(all)
	if diff := cmp.Diff(map[object.Key]Parent{claim: {}, composite: {claim}, below: {composite}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(all) != 4 || len(Selection{}.SelectInstances(all)) != 4 {
		t.Error("an empty selection does not select all")
	}
	kinds := map[schema.GroupKind]bool{composite.GroupKind(): true}
	for _, key := range slices.Collect(maps.Keys(got)) {
		if IsOrHasAncestorOf(key, kinds, all) != (key != claim) {
			t.Errorf("%s: IsOrHasAncestorOf is wrong", key)
		}
	}
	all[claim] = Parent{below} // a cycle, which labels may have
	if len(Selection{Namespaces: []string{"none"}}.SelectInstances(all)) != 0 {
		t.Error("an object of another namespace is selected")
	}
}

func TestUsagesAreSelectedWithTheUsedObject(t *testing.T) {
	const clusterUsage = "apiVersion: protection.crossplane.io/v1beta1\nkind: ClusterUsage\nmetadata: {name: u}\nspec: {reason: x, of: {apiVersion: example.com/v1, kind: XShop, resourceRef: {name: a}}}\n"
	shop := object.Key{Group: "example.com", Kind: "XShop", Name: "a"}
	has := func(key object.Key) bool { return key == shop }
	none := func(object.Key) bool { return false }
	usage := parse(t, clusterUsage)
	owner := inventory.Owner{Kind: schema.GroupVersionKind{Group: "kro.run", Version: "v1", Kind: "App"}, Namespace: "prod", Name: "a", UID: "1"}
	owner.Mark(usage, inventory.Place{Node: "usage"})
	other := owner.Key()
	other.Name = "b"
	cases := map[string]struct {
		selection  Selection
		instance   object.Key // that is exported
		isExported func(object.Key) bool
		want       bool
	}{
		"an empty selection":                           {Selection{}, other, none, true},
		"the used object is exported":                  {Selection{Definitions: []string{"x"}}, other, has, true},
		"the used object is not exported":              {Selection{Definitions: []string{"x"}}, other, none, false},
		"it is a child of an exported instance":        {Selection{Definitions: []string{"x"}}, owner.Key(), none, true},
		"a cluster-scoped usage of an exported object": {Selection{Namespaces: []string{"prod"}}, other, has, true},
		"a cluster-scoped usage of another object":     {Selection{Namespaces: []string{"prod"}}, other, none, false},
	}
	for name, tc := range cases {
		if got := tc.selection.IncludesUsage(usage, map[object.Key]Parent{tc.instance: {}}, tc.isExported); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
