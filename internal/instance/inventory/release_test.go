package inventory_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// TestAReleasedChildIsNotFoundAgain releases a composite from its claim, and from a claim
// that isn't its own.
func TestAReleasedChildIsNotFoundAgain(t *testing.T) {
	claim := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.example.com/v1", "kind": "Shop", "metadata": map[string]any{"namespace": "ns", "name": "mine", "uid": "u1"}}}
	another := claim.DeepCopy()
	another.SetName("another")
	composite := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "x.example.com/v1", "kind": "XShop",
		"metadata": map[string]any{"name": "mine-1", "labels": map[string]any{apiextensions.ClaimNameLabel: "mine"}},
		"spec":     map[string]any{"claimRef": map[string]any{"apiVersion": "x.example.com/v1", "kind": "Shop", "namespace": "ns", "name": "mine"}},
	}}
	marks := map[string]any{"labels": map[string]any{apiextensions.ClaimNameLabel: nil}, "annotations": map[string]any{}}
	cases := map[string]struct {
		by   *unstructured.Unstructured
		want map[string]any
	}{
		"A composite of the claim loses its claimRef":  {claim, map[string]any{"metadata": marks, "spec": map[string]any{"claimRef": nil}}},
		"A composite of another claim keeps its claim": {another, map[string]any{"metadata": marks}},
	}
	for name, tc := range cases {
		if diff := cmp.Diff(tc.want, inventory.ReleasePatch(composite, tc.by)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestARetainedChildKeepsItsOtherOwners takes one owner off, and leaves alone what has none.
func TestARetainedChildKeepsItsOtherOwners(t *testing.T) {
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "Owner", Name: "other", UID: "another"}
	own := metav1.OwnerReference{APIVersion: "v1", Kind: "Owner", Name: "own", UID: instance().GetUID()}
	cases := map[string]struct {
		refs []metav1.OwnerReference
		want map[string]any
	}{
		"Two owners":     {[]metav1.OwnerReference{own, other}, map[string]any{"ownerReferences": []metav1.OwnerReference{other}}},
		"The only owner": {[]metav1.OwnerReference{own}, map[string]any{"ownerReferences": []metav1.OwnerReference{}}},
		"Another owner":  {[]metav1.OwnerReference{other}, map[string]any{}},
		"No owner":       {nil, map[string]any{}},
	}
	for name, tc := range cases {
		o := child()
		o.SetOwnerReferences(tc.refs)
		if diff := cmp.Diff(map[string]any{"metadata": tc.want}, inventory.DisownPatch(o, instance())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
