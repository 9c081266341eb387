package kind_test

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

func TestReplacement(t *testing.T) {
	text, number := props{"size": {Type: "string"}}, props{"size": {Type: "integer"}}
	of := func(spec props, version string, stored ...string) *apiextensionsv1.CustomResourceDefinition {
		c := of(spec, nil)
		c.Spec.Versions[0].Name = version
		c.Status.StoredVersions = stored
		c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		return c
	}
	converts := func(c *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
		c.Annotations[install.ConversionsAnnotation] = `{"v1beta1":{}}`
		install.SetConversion(c, install.Endpoint{URL: "https://here"})
		return c
	}
	both := func(c *apiextensionsv1.CustomResourceDefinition, former string) *apiextensionsv1.CustomResourceDefinition {
		v := *c.Spec.Versions[0].DeepCopy()
		v.Name, v.Storage = former, false
		c.Spec.Versions = append(c.Spec.Versions, v)
		return c
	}
	none, some := kind.CheckResult{Done: true}, kind.CheckResult{Done: true, Problem: "Shop shops: spec.resources[0]"}
	for name, tc := range map[string]struct {
		kind.Replacement
		do      kind.ReplaceAction
		reason  kind.Reason
		message string
	}{
		"a harmless change asks who composes the kind": {
			kind.Replacement{Current: of(text, "v1"), Wanted: of(text, "v1")}, kind.CheckDependants, "", "",
		},
		"and replaces it if nobody minds": {
			kind.Replacement{Current: of(text, "v1"), Wanted: of(text, "v1"), Dependants: none}, kind.Replace, "", "",
		},
		"and does not if somebody does": {
			kind.Replacement{Current: of(text, "v1"), Wanted: of(text, "v1"), Dependants: some}, kind.Keep, kind.BreaksDependants, "Shop shops",
		},
		"a breaking change asks first whom else it would break": {
			kind.Replacement{Current: of(text, "v1"), Wanted: of(number, "v1")}, kind.CheckDependants, "", "",
		},
		"and says all of it at once": {
			kind.Replacement{Current: of(text, "v1"), Wanted: of(number, "v1"), Dependants: some}, kind.Keep, kind.BreakingChange, "; and definitions that compose the kind: Shop shops",
		},
		"an author may accept that": {
			kind.Replacement{Current: of(text, "v1"), Wanted: of(number, "v1"), AllowBreaking: true}, kind.Replace, "", "",
		},
		"but not in waves": {
			kind.Replacement{Current: of(text, "v1"), Wanted: of(number, "v1"), AllowBreaking: true, InWaves: true}, kind.Keep, kind.BreakingChange, "cannot hold instances before and after",
		},
		"another stored version cannot go in waves": {
			kind.Replacement{Current: of(text, "v1"), Wanted: both(of(text, "v2"), "v1"), InWaves: true}, kind.Keep, kind.BreakingChange, "would change from v1 to v2",
		},
		"a version in which instances are stored stays": {
			kind.Replacement{Current: of(text, "v2", "v1", "v2"), Wanted: of(text, "v2"), AllowBreaking: true}, kind.Keep, kind.VersionStillStored, "stored in v1",
		},
		"a new conversion is tried on the instances": {
			kind.Replacement{Current: of(text, "v1"), Wanted: converts(both(of(text, "v1"), "v1beta1"))}, kind.CheckInstances, "", "",
		},
		"and is not published if it fails": {
			kind.Replacement{Current: of(text, "v1"), Wanted: converts(both(of(text, "v1"), "v1beta1")), Inconvertible: kind.CheckResult{Done: true, Problem: "1 of 2 instances cannot be converted"}}, kind.Keep, kind.ConversionFails, "1 of 2 instances",
		},
		"before anybody else is asked": {
			kind.Replacement{Current: of(text, "v1"), Wanted: converts(both(of(text, "v1"), "v1beta1")), Inconvertible: none}, kind.CheckDependants, "", "",
		},
		"who accepts what breaks accepts a conversion that fails": {
			kind.Replacement{Current: of(text, "v1"), Wanted: converts(both(of(text, "v1"), "v1beta1")), AllowBreaking: true}, kind.Replace, "", "",
		},
		"a conversion that is the same is not tried again": {
			kind.Replacement{Current: converts(both(of(text, "v1"), "v1beta1")), Wanted: converts(both(of(text, "v1"), "v1beta1")), Dependants: none}, kind.Replace, "", "",
		},
	} {
		got := tc.Next()
		if got.Action != tc.do || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestAConversionIsTriedFromAllStoredVersions has instances that are not yet rewritten in the storage version.
func TestAConversionIsTriedFromAllStoredVersions(t *testing.T) {
	c := of(props{"size": {Type: "string"}}, nil, hub("v1"),
		also(graph.Version{Name: "v1alpha1", Served: true, Identical: true}), also(graph.Version{Name: "v1alpha2", Identical: true}))
	for _, tc := range []struct{ stored, want []string }{
		{nil, []string{"v1"}},
		{[]string{"v1"}, []string{"v1"}},
		{[]string{"v1alpha1", "v1"}, []string{"v1", "v1alpha1"}},
		{[]string{"v1alpha2", "v1"}, []string{"v1"}}, // it is not served
	} {
		c.Status.StoredVersions = tc.stored
		if got := kind.ConvertedVersions(c); !slices.Equal(got, tc.want) {
			t.Errorf("stored in %v: got %v, want %v", tc.stored, got, tc.want)
		}
	}
}

func TestInconvertibleFromAVersion(t *testing.T) {
	c := of(props{"size": {Type: "integer"}}, nil, hub("v1"), also(graph.Version{Name: "v1alpha1", Spec: objectOf(props{"size": {Type: "string"}}), Served: true}))
	c.Annotations[install.ConversionsAnnotation] = `{"v1alpha1":{"to":{"size":"${int(self.spec.?size.orValue(\"1\"))}"},"from":{"size":"${string(self.spec.?size.orValue(1))}"}}}`
	for version, size := range map[string]any{"v1": int64(1), "v1alpha1": "large"} {
		o := unstructured.Unstructured{Object: map[string]any{
			"apiVersion": c.Spec.Group + "/" + version, "kind": c.Spec.Names.Kind, "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"size": size},
		}}
		got, err := kind.Inconvertible(c, version, []unstructured.Unstructured{o})
		if err != nil || strings.Contains(got, "1 of 1") != (version == "v1alpha1") {
			t.Errorf("from %s: %q, %v", version, got, err)
		}
	}
}
