package xrd_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
)

var databases = v1.TypeReference{APIVersion: "acme.example.com/v1", Kind: "XDatabase"}

func composition(name string, labels map[string]string, of ...v1.TypeReference) *v1.Composition {
	c := &v1.Composition{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	c.Spec.CompositeTypeRef = databases
	if len(of) > 0 {
		c.Spec.CompositeTypeRef = of[0]
	}
	return c
}

// instance is a composite of legacy's kind.
func instance(change ...func(xrd.Instance)) xrd.Instance {
	i := xrd.NewInstance(&unstructured.Unstructured{Object: map[string]any{}}, xrd.LayoutOf(v1.LegacyClusterScope))
	for _, c := range change {
		c(i)
	}
	return i
}

func references(n string) func(xrd.Instance) { return func(i xrd.Instance) { i.SetCompositionName(n) } }

func selecting(labels map[string]string) func(xrd.Instance) {
	return func(i xrd.Instance) { i.SetCompositionSelector(labels) }
}

func TestSelect(t *testing.T) {
	aws, gcp := map[string]string{"cloud": "aws"}, map[string]string{"cloud": "gcp"}
	there := []*v1.Composition{
		composition("small", aws), composition("large", aws), composition("other", gcp),
		composition("older", aws, v1.TypeReference{APIVersion: "acme.example.com/v1alpha1", Kind: "XDatabase"}),
		composition("queue", aws, v1.TypeReference{APIVersion: "acme.example.com/v1", Kind: "XQueue"}),
	}
	type definition = v1.CompositeResourceDefinition
	enforces := func(name string) func(*definition) {
		return func(d *definition) { d.Spec.EnforcedCompositionRef = &v1.CompositionReference{Name: name} }
	}
	defaults := func(d *definition) { d.Spec.DefaultCompositionRef = &v1.CompositionReference{Name: "other"} }
	cases := map[string]struct {
		instance xrd.Instance
		change   func(*definition)
		want     string
	}{
		"What is enforced overrides what is named":        {instance(references("small")), enforces("large"), "composition large (Enforced)"},
		"What is enforced overrides what is selected":     {instance(selecting(gcp)), enforces("large"), "composition large (Enforced)"},
		"What is enforced may be missing":                 {instance(), enforces("huge"), "there is no composition huge, which spec.enforcedCompositionRef of the CompositeResourceDefinition names"},
		"What is named overrides what is selected":        {instance(references("small"), selecting(gcp)), nil, "composition small (Referenced)"},
		"What is named overrides the default":             {instance(references("small")), defaults, "composition small (Referenced)"},
		"What is named may be missing":                    {instance(references("huge")), defaults, "there is no composition huge, which spec.compositionRef names"},
		"What is named may be for another kind":           {instance(references("queue")), nil, "composition queue, which spec.compositionRef names, is for acme.example.com/v1 XQueue"},
		"What is named may be for another version":        {instance(references("older")), nil, "composition older, which spec.compositionRef names, is for acme.example.com/v1alpha1 XDatabase"},
		"The default is for those who don't choose":       {instance(), defaults, "composition other (Default)"},
		"The default is not for those who select":         {instance(selecting(aws)), defaults, "composition large is the first by name of those that match; the others are small"},
		"A selector that one composition matches":         {instance(selecting(gcp)), nil, "composition other (Matched)"},
		"A selector that none matches":                    {instance(selecting(map[string]string{"cloud": "own"})), defaults, "there is no composition for acme.example.com/v1 XDatabase (spec.compositeTypeRef) with the labels cloud=own"},
		"A selector that asks for nothing takes the kind": {instance(selecting(map[string]string{})), defaults, "composition large is the first by name of those that match; the others are other, small"},
		"Whoever asks for nothing takes the kind":         {instance(), nil, "composition large is the first by name of those that match; the others are other, small"},
	}
	if got := xrd.SelectComposition(nil, instance(), legacy()).String(); got != "there is no composition for acme.example.com/v1 XDatabase (spec.compositeTypeRef)" {
		t.Errorf("without any composition: %s", got) // nobody has asked for labels
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := legacy()
			if tc.change != nil {
				tc.change(d)
			}
			got := xrd.SelectComposition(there, tc.instance, d)
			if got.String() != tc.want {
				t.Errorf("want %s\n got %s", tc.want, got)
			}
			if (got.Composition != nil) != (got.Problem == "") || got.Composition != nil && got.Composition.Name != got.Name {
				t.Errorf("%+v is at odds with itself", got)
			}
		})
	}
}

var anyLabels = rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"1", "2"}), 0, 2)

func TestSelectionDependsOnNoOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var there []*v1.Composition
		for i := range rapid.IntRange(0, 8).Draw(t, "compositions") {
			kind := rapid.SampledFrom([]v1.TypeReference{databases, databases, {APIVersion: "acme.example.com/v1", Kind: "XQueue"}}).Draw(t, "kind")
			there = append(there, composition(fmt.Sprintf("c%d", i), anyLabels.Draw(t, "labels"), kind))
		}
		i := instance()
		if rapid.Bool().Draw(t, "names one") {
			i.SetCompositionName("c1")
		}
		if rapid.Bool().Draw(t, "selects") {
			i.SetCompositionSelector(anyLabels.Draw(t, "selector"))
		}
		first := xrd.SelectComposition(there, i, legacy())
		again := xrd.SelectComposition(rapid.Permutation(there).Draw(t, "in another order"), i, legacy())
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("the order makes a difference: %s", diff)
		}
		if first.IsAmbiguous() && !slices.IsSorted(append([]string{first.Name}, first.OtherMatches...)) {
			t.Fatalf("%s is not the first of %s", first.Name, first.OtherMatches)
		}
	})
}
