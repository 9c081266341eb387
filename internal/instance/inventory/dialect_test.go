package inventory_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

// TestAPreservedChildHasNoOwner marks what a composite is composed of.
func TestAPreservedChildHasNoOwner(t *testing.T) {
	composite := instance()
	owner := inventory.OwnerOf(composite, object.Definition{Dialect: object.CompositeDialect}, "v1").Recognizing(signing.Keys(), composite, time.Time{})
	child := func() *unstructured.Unstructured {
		o := child()
		o.SetNamespace(composite.GetNamespace())
		return o
	}
	elsewhere := child()
	elsewhere.SetNamespace("elsewhere")
	owned := child()
	owner.Mark(owned, inventory.Place{Node: "a"})
	others := child()
	others.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Team", Name: "web", UID: "team"}})
	for name, tc := range map[string]struct {
		object *unstructured.Unstructured
		stays  bool
		want   []types.UID
	}{
		"what goes with it":            {object: child(), want: []types.UID{composite.GetUID()}},
		"what stays":                   {object: child(), stays: true},
		"what goes, and is a team's":   {object: others, want: []types.UID{"team", composite.GetUID()}},
		"what stays, and is a team's":  {object: others, stays: true, want: []types.UID{"team"}},
		"what has gone, and stays now": {object: owned, stays: true},
		"what is in another namespace": {object: elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			o := tc.object.DeepCopy()
			owner.Mark(o, inventory.Place{Node: "a", Preserved: tc.stays})
			var got []types.UID
			for _, ref := range o.GetOwnerReferences() {
				got = append(got, ref.UID)
			}
			if len(got) != len(tc.want) || len(got) > 0 && (got[0] != tc.want[0] || got[len(got)-1] != tc.want[len(got)-1]) {
				t.Errorf("its owners are %v", got)
			}
			if is := inventory.IsOwnedBy(o, composite); is != (len(tc.want) > 0 && tc.want[len(tc.want)-1] == composite.GetUID()) {
				t.Errorf("the composite's: %t", is)
			}
			if inventory.Node(o) != "a" || !owner.Owns(o) {
				t.Errorf("the engine doesn't know it: %v", o.Object["metadata"])
			}
		})
	}
}

// TestIsRetained has been left in place by an instance with a UID.
func TestIsRetained(t *testing.T) {
	yes := true
	by := func(uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: "App", Name: "x", UID: uid, Controller: &yes}}
	}
	for name, tc := range map[string]struct {
		from   string
		id     string
		owners []metav1.OwnerReference
		want   bool
	}{
		"one that was not retained": {},
		"a graph's":                 {from: "former", id: "former", want: true},
		"a graph's that another instance has taken over": {from: "former", id: "another"},
		"a composite's":                             {from: "former", want: true},
		"a composite's that refers to it still":     {from: "former", owners: by("former"), want: true},
		"a composite's that another has taken over": {from: "former", owners: by("another")},
		"a claim's, which has no controller":        {from: "former", want: true},
	} {
		o := child()
		o.SetOwnerReferences(tc.owners)
		o.SetLabels(map[string]string{v1alpha1.InstanceIDLabel: tc.id})
		o.SetAnnotations(map[string]string{v1alpha1.RetainedFromAnnotation: tc.from})
		if got := inventory.IsRetained(o); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestAClaimIsTheControllerOfItsSecret is about the Secret with the connection details,
// which other implementations of the dialect know by nothing else.
func TestAClaimIsTheControllerOfItsSecret(t *testing.T) {
	claim := inventory.OwnerOf(instance(), object.Definition{Name: "stores", Dialect: object.ClaimDialect}, "")
	secret := func(namespace string, controller types.UID) *unstructured.Unstructured {
		o := child()
		o.SetNamespace(namespace)
		if controller != "" {
			yes := true
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "kro.run/v1alpha1", Kind: "Vpc", Name: "main", UID: controller, Controller: &yes}})
		}
		return o
	}
	for name, tc := range map[string]struct {
		object *unstructured.Unstructured
		want   bool
	}{
		"one that it controls is the claim's":               {secret("prod", "i-1"), true},
		"one of a claim of that name, which is gone, isn't": {secret("prod", "i-0"), false},
		"one without controller isn't, whatever its name":   {secret("prod", ""), false},
	} {
		if got := claim.Owns(tc.object); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	own, elsewhere, staying := secret("prod", ""), secret("", ""), secret("prod", "i-1")
	claim.Mark(own, inventory.Place{Node: "connection"})
	claim.Mark(elsewhere, inventory.Place{Node: "composite"})
	claim.Mark(staying, inventory.Place{Node: "connection", Preserved: true})
	ref := metav1.GetControllerOf(own)
	if ref == nil || ref.UID != "i-1" || ref.BlockOwnerDeletion == nil || !*ref.BlockOwnerDeletion {
		t.Errorf("it refers to %v", own.GetOwnerReferences())
	}
	if refs := elsewhere.GetOwnerReferences(); refs != nil {
		t.Errorf("what is in no namespace refers to %v", refs)
	}
	if refs := staying.GetOwnerReferences(); refs != nil {
		t.Errorf("what is to stay refers to %v", refs)
	}
}

func TestIsReleasedElsewhere(t *testing.T) {
	deleted := func(marks ...string) *unstructured.Unstructured {
		o := instance()
		now := metav1.Now()
		o.SetDeletionTimestamp(&now)
		o.SetFinalizers([]string{"foreign.example.org/audit"})
		for _, mark := range marks {
			if mark == "label" {
				o.SetLabels(map[string]string{"applyset.kubernetes.io/id": "x"})
			} else {
				o.SetFinalizers(append(o.GetFinalizers(), mark))
			}
		}
		return o
	}
	cases := map[string]struct {
		instance *unstructured.Unstructured
		dialect  object.Dialect
		want     bool
	}{
		"It has removed its finalizer":                         {deleted(), object.CompositeDialect, true},
		"It deletes in the foreground":                         {deleted("foregroundDeletion"), object.CompositeDialect, true},
		"Its finalizer is there, and now ours":                 {deleted("composite.apiextensions.crossplane.io"), object.CompositeDialect, false},
		"The engine has labelled it and removed its finalizer": {deleted("label"), object.CompositeDialect, false},
		"A claim may be released, too":                         {deleted(), object.ClaimDialect, true},
		"A claim with its finalizer is not":                    {deleted("finalizer.apiextensions.crossplane.io"), object.ClaimDialect, false},
		"A graph's instance has no such owner":                 {deleted(), object.GraphDialect, false},
		"It lives":                                             {instance(), object.CompositeDialect, false},
	}
	for name, tc := range cases {
		if got := inventory.IsReleasedElsewhere(tc.instance, object.Definition{Dialect: tc.dialect}); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
