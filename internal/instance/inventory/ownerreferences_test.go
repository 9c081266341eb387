package inventory_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// TestOwnerReferencesOfAGraphsChild marks children of a graph's instance.
func TestOwnerReferencesOfAGraphsChild(t *testing.T) {
	const home = "home"
	mine := metav1.OwnerReference{APIVersion: "kro.run/v1alpha1", Kind: "App", Name: "x", UID: "i-1"}
	kind := metav1.OwnerReference{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "apps.kro.run", UID: "crd"}
	team := metav1.OwnerReference{APIVersion: "v1", Kind: "Team", Name: "web", UID: "team"}
	said := mine
	yes := true
	said.BlockOwnerDeletion = &yes
	for name, tc := range map[string]struct {
		namespace, child string
		annotations      map[string]string
		unknown, stays   bool
		written          []metav1.OwnerReference
		want             []metav1.OwnerReference
	}{
		"one in its namespace":                     {namespace: home, child: home, want: []metav1.OwnerReference{mine, kind}},
		"one elsewhere":                            {namespace: home, child: "away"},
		"one in no namespace":                      {namespace: home},
		"one in a namespace, of one in none":       {child: home, want: []metav1.OwnerReference{mine, kind}},
		"one in no namespace, of one in none":      {want: []metav1.OwnerReference{mine, kind}},
		"one that is preserved":                    {namespace: home, child: home, stays: true},
		"one whose instance has the policy None":   {namespace: home, child: home, annotations: map[string]string{v1alpha1.OwnerReferencesAnnotation: "None"}},
		"one whose instance has an unknown policy": {namespace: home, child: home, annotations: map[string]string{v1alpha1.OwnerReferencesAnnotation: "no"}, want: []metav1.OwnerReference{mine, kind}},
		"one whose scope is unknown":               {namespace: home, child: home, unknown: true},
		"one whose template names another":         {namespace: home, child: home, written: []metav1.OwnerReference{team}, want: []metav1.OwnerReference{team, mine, kind}},
		"one whose template names it already":      {namespace: home, child: home, written: []metav1.OwnerReference{said}, want: []metav1.OwnerReference{said, kind}},
	} {
		t.Run(name, func(t *testing.T) {
			instance := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "App"}}
			instance.SetNamespace(tc.namespace)
			instance.SetName("x")
			instance.SetUID("i-1")
			instance.SetAnnotations(tc.annotations)
			owner := inventory.OwnerOf(instance, object.Definition{Name: "app"}, "v1")
			if !tc.unknown {
				owner.CRD = inventory.CRD{Name: "apps.kro.run", UID: "crd"}
			}
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
			o.SetNamespace(tc.child)
			o.SetName("a")
			if tc.written != nil {
				o.SetOwnerReferences(tc.written)
			}
			owner.Mark(o, inventory.Place{Node: "a", Preserved: tc.stays})
			if diff := cmp.Diff(tc.want, o.GetOwnerReferences()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			left, changed := inventory.WithoutOwner(o, instance)
			if changed != (len(tc.want) > 0) || (tc.written == nil && len(left) > 0) {
				t.Errorf("without them it refers to %v", left)
			}
		})
	}
}

// TestTheRemainingOwnerReferenceIsRemovedToo disowns a child of which the garbage collector has
// taken off the reference to its instance.
func TestTheRemainingOwnerReferenceIsRemovedToo(t *testing.T) {
	instance := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "App"}}
	instance.SetUID("i-1")
	crd := func(name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: name, UID: "crd"}
	}
	for name, tc := range map[string]struct {
		has  metav1.OwnerReference
		want int
	}{
		"the kind of the instance": {crd("apps.kro.run"), 0},
		"another kind":             {crd("apps.example.com"), 1},
		"something of its name":    {metav1.OwnerReference{APIVersion: "v1", Kind: "CustomResourceDefinition", Name: "apps.kro.run"}, 1},
	} {
		o := child()
		o.SetOwnerReferences([]metav1.OwnerReference{tc.has})
		if left, _ := inventory.WithoutOwner(o, instance); len(left) != tc.want {
			t.Errorf("%s: left are %v", name, left)
		}
	}
}
