package xrd_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
)

// layouts are all that instances can have, each with the kind that has it.
func layouts(t *testing.T) map[string]struct {
	xrd.Layout
	kind *extv1.CustomResourceDefinition
} {
	t.Helper()
	out := map[string]struct {
		xrd.Layout
		kind *extv1.CustomResourceDefinition
	}{}
	for _, scope := range []v1.Scope{v1.NamespacedScope, v1.ClusterScope, v1.LegacyClusterScope} {
		d := legacy()
		d.Spec.Scope = scope
		if scope != v1.LegacyClusterScope {
			d.Spec.ClaimNames = nil
		}
		for i := range d.Spec.Versions {
			d.Spec.Versions[i].Schema = &v1.DefinitionSchema{OpenAPIV3Schema: runtime.RawExtension{Raw: []byte(`{"type":"object"}`)}}
		}
		composite, problems := xrd.CompositeCRD(d, xrd.Options{})
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		layout := out[string(scope)]
		layout.Layout, layout.kind = xrd.LayoutOf(scope), composite
		out[string(scope)] = layout
		if claim, _ := xrd.ClaimCRD(d, xrd.Options{}); claim != nil {
			layout.Layout, layout.kind = xrd.ClaimLayout(), claim
			out["claims"] = layout
		}
	}
	return out
}

func TestPlacesAreInTheSchema(t *testing.T) {
	for name, layout := range layouts(t) {
		t.Run(name, func(t *testing.T) {
			for _, v := range layout.kind.Spec.Versions {
				known := 0
				places := reflect.ValueOf(layout.Layout)
				for i := range places.NumField() {
					place, ok := places.Field(i).Interface().(xrd.FieldPath)
					if !ok || len(place) == 0 {
						continue
					}
					known++
					at := *v.Schema.OpenAPIV3Schema
					for _, field := range place {
						next, ok := at.Properties[field]
						if !ok {
							t.Fatalf("%s: %s is not in the schema of %s", v.Name, place.Path(), layout.kind.Name)
						}
						at = next
					}
				}
				// apiVersion, kind and metadata.name are everybody's.
				if fields := leaves(v.Schema.OpenAPIV3Schema); fields-3 != known {
					t.Errorf("%s: the schema has %d fields of the machinery, %d of which are known", v.Name, fields-3, known)
				}
			}
		})
	}
}

// leaves counts fields down to where the machinery has values.
func leaves(s *extv1.JSONSchemaProps) int {
	n := 0
	for name, field := range s.Properties {
		switch name {
		case "spec", "status", "metadata", "crossplane", "connectionDetails":
			n += leaves(&field)
		case "waiting", "deletion", "pruning", "problems", "observedGeneration": // package report's, in all dialects
		default:
			n++
		}
	}
	return n
}

// TestWhatIsSetIsRead sets everything on an instance of each layout, and reads it.
func TestWhatIsSetIsRead(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	conditions := []v1alpha1.Condition{
		{Type: "Ready", Status: "False", Reason: "Creating", Message: "db: 1/3", LastTransitionTime: &since, ObservedGeneration: 4},
		{Type: "Synced", Status: "True", LastTransitionTime: &since},
	}
	composed := []xrd.ComposedRef{
		{APIVersion: "v1", Kind: "Secret", Namespace: "a", Name: "b", ResourceName: "secret"},
		{APIVersion: "apps/v1", Kind: "Deployment", ResourceName: "web", DependsOn: []string{"secret"}},
	}
	claim := xrd.ObjectRef{APIVersion: "acme.example.com/v1", Kind: "Database", Namespace: "prod", Name: "orders"}
	composite := xrd.ObjectRef{APIVersion: "acme.example.com/v1", Kind: "XDatabase", Name: "orders-x7f2k"}
	secret := xrd.SecretRef{Namespace: "prod", Name: "orders"}
	for name, layout := range layouts(t) {
		t.Run(name, func(t *testing.T) {
			i := xrd.NewInstance(&unstructured.Unstructured{}, layout.Layout)
			i.SetCompositionName("small")
			i.SetCompositionSelector(map[string]string{"cloud": "aws"})
			i.SetRevisionName("small-1")
			i.SetRevisionSelector(map[string]string{})
			i.SetUpdatePolicy(v1.UpdateManual)
			i.SetDeletePolicy(v1.DeleteForeground)
			i.SetResourceRefs(composed)
			i.SetClaimRef(claim)
			i.SetCompositeRef(composite)
			i.SetConnectionSecretRef(secret)
			i.SetLastPublished(since.Time)
			i.SetConditions(conditions)
			refused := i.AddClaimConditionTypes("Backup", "Ready", "Alarm")
			if diff := cmp.Diff([]string{"Ready"}, refused); diff != "" {
				t.Error(diff)
			}

			selected, _ := i.CompositionSelector()
			revisions, follows := i.RevisionSelector()
			same(t, "composition", "small", i.CompositionName())
			same(t, "selector", map[string]string{"cloud": "aws"}, selected)
			same(t, "revision", "small-1", i.RevisionName())
			same(t, "revision selector", map[string]string{}, revisions)
			same(t, "follows", true, follows)
			same(t, "update policy", v1.UpdateManual, i.UpdatePolicy())
			same(t, "conditions", conditions, i.Conditions())

			legacy, isClaim := name == string(v1.LegacyClusterScope), name == "claims"
			got, claimed := i.ClaimRef()
			same(t, "claimed", legacy, claimed)
			same(t, "claim", only(legacy, claim), got)
			got, bound := i.CompositeRef()
			same(t, "bound", isClaim, bound)
			same(t, "composite", only(isClaim, composite), got)
			same(t, "delete policy", isClaim, i.DeletePolicy() == v1.DeleteForeground)
			connection, wanted := i.ConnectionSecretRef()
			same(t, "wants a secret", legacy || isClaim, wanted)
			want := only(legacy || isClaim, secret)
			if isClaim {
				want.Namespace = ""
			}
			same(t, "secret", want, connection)
			same(t, "published", only(legacy || isClaim, "2026-08-01T12:00:00Z"), i.LastPublished())
			same(t, "claim conditions", only(legacy || isClaim, []string{"Alarm", "Backup"}), i.ClaimConditionTypes())

			refs := append([]xrd.ComposedRef{}, composed...)
			if layout.Namespaced {
				refs[0].Namespace = ""
			}
			same(t, "composed", only(!isClaim, refs), i.ResourceRefs())

			i.SetCompositionName("")
			i.SetRevisionSelector(nil)
			i.SetResourceRefs(nil)
			same(t, "no composition", "", i.CompositionName())
			if _, follows := i.RevisionSelector(); follows || i.ResourceRefs() != nil {
				t.Error("what was taken away is still there")
			}
		})
	}
}

func TestNothingIsWrittenForAnEmptyValue(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	i := xrd.NewInstance(o, xrd.LayoutOf(v1.LegacyClusterScope))
	i.SetCompositionName("")
	i.SetRevisionName("")
	i.SetRevisionSelector(nil)
	i.SetResourceRefs(nil)
	same(t, "an empty object", map[string]any{}, o.Object)
	i.SetConditions([]v1alpha1.Condition{{Type: "Ready", Status: "True", Reason: "Available"}})
	same(t, "a condition without a message", map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "True", "reason": "Available"},
	}}}, o.Object)
}

func TestWhatIsMalformedIsNotThere(t *testing.T) {
	for name, object := range map[string]map[string]any{
		"nothing":  nil,
		"no spec":  {"spec": nil, "status": nil},
		"texts":    {"spec": "a", "status": "b"},
		"no lists": {"spec": map[string]any{"resourceRefs": "a", "compositionRef": "b", "compositionSelector": "c"}, "status": map[string]any{"conditions": "d"}},
		"no items": {"spec": map[string]any{"resourceRefs": []any{"a"}}, "status": map[string]any{"conditions": []any{"b"}, "claimConditionTypes": []any{int64(1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			i := xrd.NewInstance(&unstructured.Unstructured{Object: object}, xrd.LayoutOf(v1.LegacyClusterScope))
			_, selects := i.CompositionSelector()
			if i.CompositionName() != "" || selects || i.ResourceRefs() != nil || i.Conditions() != nil || i.ClaimConditionTypes() != nil || i.UpdatePolicy() != v1.UpdateAutomatic {
				t.Error("something is read of it")
			}
			i.SetCompositionName("a")
			i.SetConditions([]v1alpha1.Condition{{Type: "Ready"}})
			if i.CompositionName() != "a" || len(i.Conditions()) != 1 {
				t.Error("it can't be mended")
			}
		})
	}
}

func same[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// only is the value where it can be, and else its zero.
func only[T any](can bool, value T) T {
	if can {
		return value
	}
	var zero T
	return zero
}
