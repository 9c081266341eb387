package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

type properties = map[string]apiextensionsv1.JSONSchemaProps

func fields(of properties) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: of}
}

func listOf(item apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
}

func TestMissingFields(t *testing.T) {
	yes := true
	wanted := fields(properties{"a": {Type: "string"}, "b": fields(properties{"c": {Type: "string"}}), "l": listOf(fields(properties{"d": {Type: "string"}}))})
	cases := map[string]struct {
		has  apiextensionsv1.JSONSchemaProps
		want []string
	}{
		"The same is missing nothing":           {wanted, nil},
		"One with more is missing nothing":      {fields(properties{"a": {}, "b": wanted.Properties["b"], "l": wanted.Properties["l"], "z": {}}), nil},
		"A field that isn't there is missing":   {fields(properties{"b": wanted.Properties["b"], "l": wanted.Properties["l"]}), []string{".a"}},
		"One deeper down is":                    {fields(properties{"a": {}, "b": fields(nil), "l": listOf(fields(nil))}), []string{".b.c", ".l[].d"}},
		"What keeps all fields is missing none": {fields(properties{"a": {}, "b": {XPreserveUnknownFields: &yes}, "l": wanted.Properties["l"]}), nil},
	}
	for name, tc := range cases {
		if got := missingFields(&tc.has, &wanted, ""); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// environments is a kind that is stored as v1beta1 and served as v1alpha1 too.
func environments(change func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	c := &apiextensionsv1.CustomResourceDefinition{}
	c.APIVersion, c.Kind, c.Name = "apiextensions.k8s.io/v1", "CustomResourceDefinition", "environmentconfigs.example.org"
	c.Spec.Group, c.Spec.Scope = "example.org", apiextensionsv1.ClusterScoped
	c.Spec.Names.Kind, c.Spec.Names.Plural = "EnvironmentConfig", "environmentconfigs"
	root := fields(properties{"data": {Type: "object"}})
	for _, name := range []string{"v1alpha1", "v1beta1"} {
		c.Spec.Versions = append(c.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: name == "v1beta1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: root.DeepCopy()},
		})
	}
	change(c)
	return c
}

func asObject(t *testing.T, c *apiextensionsv1.CustomResourceDefinition) *unstructured.Unstructured {
	t.Helper()
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: raw}
}

func TestPlan(t *testing.T) {
	same := func(*apiextensionsv1.CustomResourceDefinition) {}
	wanted := asObject(t, environments(func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Annotations = map[string]string{v1alpha1.SchemaAnnotation: "9"}
	}))
	signed := wanted.DeepCopy()
	inventory.Sign(signed, "")
	sign := func(as string) func(*apiextensionsv1.CustomResourceDefinition) {
		return func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Annotations = map[string]string{v1alpha1.AppliedAnnotation: as}
		}
	}
	newer := func(change func(*apiextensionsv1.CustomResourceDefinition)) func(*apiextensionsv1.CustomResourceDefinition) {
		return func(c *apiextensionsv1.CustomResourceDefinition) {
			change(c)
			c.Annotations = map[string]string{v1alpha1.AppliedAnnotation: "newer", v1alpha1.SchemaAnnotation: "10"}
		}
	}
	type want struct {
		Action           Action
		Versions, Fields []string
		Problem          string
	}
	cases := map[string]struct {
		reason  string
		current func(*apiextensionsv1.CustomResourceDefinition) // nil for none
		want    want
	}{
		"There is none":               {"it is new", nil, want{Action: Create}},
		"Ours is as it should be":     {"nothing is written when nothing changes", sign(inventory.AppliedDigest(signed)), want{Action: Unchanged}},
		"Ours is of an older release": {"this program is newer", sign("older"), want{Action: Update}},
		"Ours is of a newer release":  {"fields that this program does not know stay", newer(same), want{Action: KeepNewer}},
		"Ours is of a newer release that does not serve the version that is read": {
			"the controllers couldn't read one object",
			newer(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[1].Served = false }),
			want{Action: Refused, Problem: "was installed by a newer release, and serves v1alpha1, but not v1beta1, which is needed; use that release of this program"},
		},
		"Another program's is as we'd have": {"it is left alone", same, want{Action: KeepForeign}},
		"Another program's serves the version that is read only": {
			"Crossplane 2 serves v1beta1 only; manifests of v1alpha1 are refused there anyway",
			func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions = c.Spec.Versions[1:] },
			want{Action: KeepForeign, Versions: []string{"v1alpha1"}},
		},
		"Another program's has fewer fields": {
			"each is named once, not once a version",
			func(c *apiextensionsv1.CustomResourceDefinition) {
				for i := range c.Spec.Versions {
					c.Spec.Versions[i].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object"}
				}
			},
			want{Action: KeepForeign, Fields: []string{".data"}},
		},
		"Another program's doesn't serve the version that is read": {
			"the controllers couldn't read one object",
			func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[1].Served = false },
			want{Action: Refused, Versions: []string{"v1beta1"}, Problem: "serves v1alpha1, but not v1beta1, which is needed; update it"},
		},
		"Another program's is another kind": {
			"the plural is the same by chance",
			func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Names.Kind = "Other" },
			want{Action: Refused, Problem: "is of kind Other instead of EnvironmentConfig"},
		},
		"Another program's has another scope": {
			"its objects are elsewhere",
			func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Scope = apiextensionsv1.NamespaceScoped },
			want{Action: Refused, Problem: "has scope Namespaced instead of Cluster"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			steps, err := Plan([]*unstructured.Unstructured{wanted}, func(string) (*apiextensionsv1.CustomResourceDefinition, bool) {
				if tc.current == nil {
					return nil, false
				}
				return environments(tc.current), true
			})
			if err != nil {
				t.Fatal(err)
			}
			got := want{steps[0].Action, steps[0].MissingVersions, steps[0].MissingFields, steps[0].Problem}
			if tc.want.Problem != "" && strings.Contains(got.Problem, tc.want.Problem) {
				got.Problem = tc.want.Problem
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if refused := Error(steps) != nil; refused != (tc.want.Action == Refused) {
				t.Errorf("refused: %t", refused)
			}
		})
	}
}
