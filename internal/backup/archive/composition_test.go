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

func TestACompositionTellsWhatItNeeds(t *testing.T) {
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
		t.Errorf("it composes %s", ComposesFor(c))
	}
}

func TestADefinitionOfCompositesBringsWhatTheyAreComposedOf(t *testing.T) {
	composed := Composed{}
	composed.Add(ComposesFor(parse(t, shopComposition)), TemplateKinds(parse(t, shopComposition))...)
	all := []*unstructured.Unstructured{definition(t, "a", "A", "B"), definition(t, "b", "B"), definition(t, "c", "C"), parse(t, shopDefinition)}
	chosen, _ := WithDependencies(all, []string{"xshops.example.com"}, composed)
	if got := names(chosen); got != "xshops.example.com a b" {
		t.Errorf("chosen are %s", got)
	}
}

// TestAnImportedCompositionHasTheRevisionThatItHad checks that the mark of an import makes
// no revision.
func TestAnImportedCompositionHasTheRevisionThatItHad(t *testing.T) {
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
			t.Errorf("%s: another revision would be made", name)
		}
		again.SetLabels(map[string]string{"team": "a"})
		if RevisionsMatch([]*unstructured.Unstructured{again}, history) {
			t.Errorf("%s: no revision would be made of what has changed", name)
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

func TestOfARevisionOnlyTheNumberMayDiffer(t *testing.T) {
	const text = "apiVersion: apiextensions.crossplane.io/v1\nkind: CompositionRevision\nmetadata: {name: a}\nspec: {revision: 2, mode: Pipeline}\n"
	there := parse(t, text)
	_ = unstructured.SetNestedField(there.Object, int64(1), "spec", "revision")
	if got := Differences(parse(t, text), there); len(got) > 0 {
		t.Errorf("it differs in %v", got)
	}
	_ = unstructured.SetNestedField(there.Object, "Resources", "spec", "mode")
	if got := Differences(parse(t, text), there); !slices.Equal(got, []string{"spec.mode"}) {
		t.Errorf("it differs in %v", got)
	}
}

func TestWhatAnInstanceIsComposedOfGoesWithIt(t *testing.T) {
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
		t.Error("without namespaces it isn't all")
	}
	kinds := map[schema.GroupKind]bool{composite.GroupKind(): true}
	for _, key := range slices.Collect(maps.Keys(got)) {
		if ComposedBy(key, kinds, all) != (key != claim) {
			t.Errorf("%s is told wrongly", key)
		}
	}
	all[claim] = Parent{below} // as labels may say
	if len(Selection{Namespaces: []string{"none"}}.SelectInstances(all)) != 0 {
		t.Error("what is in no namespace that was chosen is taken")
	}
}

func TestUsagesGoWithWhatTheyAreAbout(t *testing.T) {
	const about = "apiVersion: protection.crossplane.io/v1beta1\nkind: ClusterUsage\nmetadata: {name: u}\nspec: {reason: x, of: {apiVersion: example.com/v1, kind: XShop, resourceRef: {name: a}}}\n"
	shop := object.Key{Group: "example.com", Kind: "XShop", Name: "a"}
	has := func(key object.Key) bool { return key == shop }
	none := func(object.Key) bool { return false }
	cases := map[string]struct {
		selection Selection
		has       func(object.Key) bool
		want      bool
	}{
		"all are, where nothing is chosen":              {Selection{}, none, true},
		"it is about what is exported":                  {Selection{Definitions: []string{"x"}}, has, true},
		"it is about what isn't":                        {Selection{Definitions: []string{"x"}}, none, false},
		"it is in no namespace, and about what is in":   {Selection{Namespaces: []string{"prod"}}, has, true},
		"it is in no namespace, and about what is none": {Selection{Namespaces: []string{"prod"}}, none, false},
	}
	for name, tc := range cases {
		if got := tc.selection.IncludesUsage(parse(t, about), nil, tc.has); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
