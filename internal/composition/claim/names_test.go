package claim

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// Every team has a database of the same name.
func TestClaimsOfOneNameHaveCompositesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for i := range 50_000 {
		claim := &unstructured.Unstructured{Object: map[string]any{}}
		claim.SetNamespace(fmt.Sprintf("team-%d", i))
		claim.SetName("database")
		claim.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)))
		name, _ := compositeName(xrd.NewInstance(claim, xrd.ClaimLayout()), nil)
		if seen[name] {
			t.Fatalf("two have the name %s", name)
		}
		seen[name] = true
	}
}

func TestTheNameOfAComposite(t *testing.T) {
	composite := func(name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetName(name)
		return o
	}
	cases := map[string]struct {
		reason string
		ref    string
		has    []*unstructured.Unstructured
		want   string
	}{
		"A reference is followed":                  {"one may be given", "given", nil, "given"},
		"What it has counts, not what it says":     {"nobody has asked for the other to go", "other", []*unstructured.Unstructured{composite("mine")}, "mine"},
		"What it has counts where it says nothing": {"the reference was lost", "", []*unstructured.Unstructured{composite("mine")}, "mine"},
		"Of two it has the one it says":            {"the other is on its way", "b", []*unstructured.Unstructured{composite("a"), composite("b")}, "b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			claim := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
			claim.SetName("claim")
			if tc.ref != "" {
				xrd.NewInstance(claim, xrd.ClaimLayout()).SetCompositeRef(xrd.ObjectRef{APIVersion: "a/v1", Kind: "X", Name: tc.ref})
			}
			if got, _ := compositeName(xrd.NewInstance(claim, xrd.ClaimLayout()), tc.has); got != tc.want {
				t.Errorf("%s: want %s, got %s", tc.reason, tc.want, got)
			}
		})
	}
	long := composite(strings.Repeat("a.", 120) + "z")
	if got, _ := compositeName(xrd.NewInstance(long, xrd.ClaimLayout()), nil); len(got) > 63 || len(validation.IsDNS1123Subdomain(got)) > 0 {
		t.Errorf("a long name makes %s", got)
	}
}

// After a restart it isn't known at once what the composite is like.
func TestAClaimShowsWhatItShowedWhileItsCompositeIsBeingRead(t *testing.T) {
	definition := &v1.CompositeResourceDefinition{Spec: v1.DefinitionSpec{
		Group: "example.com", Scope: v1.LegacyClusterScope, Versions: []v1.DefinitionVersion{{Name: "v1", Referenceable: true}},
	}}
	definition.Spec.Names.Kind = "XApp"
	claim := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "App",
		"status": map[string]any{"address": "here", "conditions": []any{map[string]any{"type": "Backup", "status": "True"}}},
	}}
	claim.SetName("shop")
	blind := plan.Unreadable{Problem: plan.Problem{Reason: plan.Syncing, Message: "reading"}}
	facts := plan.Facts{Instance: claim, UnreadableOwned: map[schema.GroupVersionKind]plan.Unreadable{definition.CompositeKind(): blind}}
	desired, err := (&Composer{Definition: definition}).Compose(t.Context(), facts)
	if err != nil || desired.Status["address"] != "here" || desired.Problem.Reason != plan.Syncing {
		t.Errorf("got %v, %v", desired, err)
	}
	said := Dialect{}.LiveConditions(condition.Read(claim), desired, plan.Summary{Unready: "reading"}, instance.Moment{})
	if !said.IsTrue("Backup") {
		t.Errorf("it says %v", said)
	}
}
