package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube/crd"
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
		Unknown          []string
		Problem          string
	}
	kros := func(change func(*apiextensionsv1.CustomResourceDefinition)) func(*apiextensionsv1.CustomResourceDefinition) {
		return func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Group = v1alpha1.GroupVersion.Group
			change(c)
		}
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
		"kro's has fewer fields": {
			"nothing else would ever update it",
			kros(func(c *apiextensionsv1.CustomResourceDefinition) {
				c.Spec.Versions[1].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object"}
			}),
			want{Action: Replace, Fields: []string{".data"}},
		},
		"kro's lacks a version": {
			"as above",
			kros(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions = c.Spec.Versions[1:] }),
			want{Action: Replace, Versions: []string{"v1alpha1"}},
		},
		"kro's has all fields": {"there is nothing to mend", kros(same), want{Action: KeepForeign}},
		"kro's has fewer fields and others": {
			"the API server would remove the others from its objects",
			kros(func(c *apiextensionsv1.CustomResourceDefinition) {
				root := fields(properties{"later": {Type: "string"}})
				c.Spec.Versions[1].Schema.OpenAPIV3Schema = &root
			}),
			want{Action: KeepForeign, Fields: []string{".data"}, Unknown: []string{".later"}},
		},
		"kro's has a version that we do not know": {
			"its objects could not be read any more",
			kros(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Name = "v1" }),
			want{Action: KeepForeign, Versions: []string{"v1alpha1"}, Unknown: []string{"v1"}},
		},
		"Ours was written over by another program": {
			"the annotations stay, and fields are missing",
			func(c *apiextensionsv1.CustomResourceDefinition) {
				sign(inventory.AppliedDigest(signed))(c)
				c.Spec.Versions[1].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object"}
			},
			want{Action: Update},
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
			wanted := wanted.DeepCopy()
			var current *apiextensionsv1.CustomResourceDefinition
			if tc.current != nil {
				current = environments(tc.current)
				wanted.Object["spec"].(map[string]any)["group"] = current.Spec.Group
			}
			steps, err := Plan([]*unstructured.Unstructured{wanted}, func(string) (*apiextensionsv1.CustomResourceDefinition, bool) {
				return current, current != nil
			})
			if err != nil {
				t.Fatal(err)
			}
			got := want{steps[0].Action, steps[0].MissingVersions, steps[0].MissingFields, steps[0].UnknownFields, steps[0].Problem}
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

// TestWhatIsReplacedCanBeRestored replaces a CustomResourceDefinition, plans an update of it, and restores it.
func TestWhatIsReplacedCanBeRestored(t *testing.T) {
	theirs := environments(func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Spec.Group = v1alpha1.GroupVersion.Group
		c.Labels, c.Annotations = map[string]string{"of": "theirs"}, map[string]string{"version": "1"}
		c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "helm", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
		c.Spec.Versions[1].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object"}
	})
	wanted := asObject(t, environments(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Group = v1alpha1.GroupVersion.Group }))
	current := theirs
	for _, want := range []Action{Replace, Unchanged, Unchanged} {
		steps, err := Plan([]*unstructured.Unstructured{wanted}, func(string) (*apiextensionsv1.CustomResourceDefinition, bool) { return current, true })
		if err != nil || steps[0].Action != want {
			t.Fatalf("want %s, got %+v: %v", want, steps, err)
		}
		if want == Replace {
			if err := SetFormer(steps[0].Wanted, asObject(t, theirs)); err != nil {
				t.Fatal(err)
			}
		}
		if current, err = crd.Decode(steps[0].Wanted); err != nil {
			t.Fatal(err)
		}
	}
	restored, replaced, err := Former(asObject(t, current))
	if err != nil || !replaced {
		t.Fatalf("replaced: %t, %v", replaced, err)
	}
	got, err := crd.Decode(restored)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(theirs, got); diff != "" {
		t.Errorf("restored (-theirs +got):\n%s", diff)
	}
	if _, replaced, err := Former(asObject(t, theirs)); replaced || err != nil {
		t.Errorf("another program's replaces nothing: %t, %v", replaced, err)
	}
	broken := asObject(t, theirs)
	broken.SetAnnotations(map[string]string{formerAnnotation: "?"})
	if _, _, err := Former(broken); err == nil {
		t.Error("an annotation that cannot be decoded is no error")
	}
}
