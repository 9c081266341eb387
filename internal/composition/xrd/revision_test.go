package xrd_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
)

func revision(of string, number int64, labels map[string]string) *v1.CompositionRevision {
	r := &v1.CompositionRevision{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", of, number), Labels: map[string]string{v1.CompositionNameLabel: of}}}
	for k, v := range labels {
		r.Labels[k] = v
	}
	r.Spec.CompositeTypeRef, r.Spec.Revision = databases, number
	setCondition(r, metav1.ConditionTrue, "ValidPipeline")
	return r
}

func setCondition(r *v1.CompositionRevision, status metav1.ConditionStatus, reason string) {
	r.Status.Conditions = []v1alpha1.Condition{{Type: "ValidPipeline", Status: status, Reason: reason}}
}

func at(name string) func(xrd.Instance) { return func(i xrd.Instance) { i.SetRevisionName(name) } }

func manual(i xrd.Instance) { i.SetUpdatePolicy(v1.UpdateManual) }

func onChannel(name string) func(xrd.Instance) {
	return func(i xrd.Instance) { i.SetRevisionSelector(map[string]string{"channel": name}) }
}

func TestRevision(t *testing.T) {
	stable, fast := map[string]string{"channel": "stable"}, map[string]string{"channel": "fast"}
	there := []*v1.CompositionRevision{
		revision("small", 1, stable), revision("small", 3, fast), revision("small", 2, stable), revision("large", 9, stable),
	}
	foreign := revision("small", 4, stable)
	foreign.Spec.CompositeTypeRef.Kind = "XQueue"
	there = append(there, foreign)
	for i, r := range []*v1.CompositionRevision{
		revision("checked", 1, nil), revision("checked", 2, nil), revision("checked", 3, nil), revision("checked", 4, nil),
		revision("broken", 1, nil), revision("broken", 2, nil),
	} {
		switch i {
		case 2, 4, 5:
			setCondition(r, metav1.ConditionFalse, "InvalidPipeline")
		case 3:
			r.Status.Conditions = nil
		}
		there = append(there, r)
	}
	onStable := func(d *v1.CompositeResourceDefinition) {
		d.Spec.DefaultCompositionRevisionSelector = &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "channel", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"fast"}}},
		}
	}
	enforced := func(d *v1.CompositeResourceDefinition) {
		d.Spec.EnforcedCompositionRef = &v1.CompositionReference{Name: "small"}
	}
	senseless := func(d *v1.CompositeResourceDefinition) {
		d.Spec.DefaultCompositionRevisionSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	}
	cases := map[string]struct {
		instance xrd.Instance
		change   func(*v1.CompositeResourceDefinition)
		want     string
		of       string
	}{
		"An invalid and an unchecked one are passed over":       {instance(), nil, "revision checked-2 (Latest)", "checked"},
		"An invalid one is left":                                {instance(at("checked-3")), nil, "revision checked-2 (Latest)", "checked"},
		"An unchecked one that is in use stays in use":          {instance(at("checked-4")), nil, "revision checked-4 (Latest)", "checked"},
		"An invalid one is used if somebody pins to it":         {instance(manual, at("checked-3")), nil, "revision checked-3 (Referenced)", "checked"},
		"An invalid one is not what somebody is pinned to":      {instance(manual), nil, "revision checked-2 (Latest)", "checked"},
		"The newest is used if all are invalid":                 {instance(at("broken-1")), nil, "revision broken-2 (Latest)", "broken"},
		"The newest is followed":                                {instance(), nil, "revision small-3 (Latest)", "small"},
		"The newest is followed from an older one":              {instance(at("small-1")), nil, "revision small-3 (Latest)", "small"},
		"The newest of a channel is followed":                   {instance(onChannel("stable")), nil, "revision small-2 (Latest)", "small"},
		"The definition's channel is followed":                  {instance(), onStable, "revision small-2 (Latest)", "small"},
		"One's own channel is followed rather":                  {instance(onChannel("fast")), onStable, "revision small-3 (Latest)", "small"},
		"A channel may be empty":                                {instance(onChannel("beta")), nil, "no revision of the composition matches the selector", "small"},
		"A definition may select senselessly":                   {instance(), senseless, "the definition's spec.defaultCompositionRevisionSelector is invalid", "small"},
		"Who is manual stays":                                   {instance(manual, at("small-1")), nil, "revision small-1 (Referenced)", "small"},
		"Who is manual stays though the definition selects":     {instance(manual, at("small-3")), onStable, "revision small-3 (Referenced)", "small"},
		"Who is manual may name a revision of another's":        {instance(manual, at("large-9")), nil, "revision large-9 (Referenced)", "small"},
		"Who is manual may name a revision of what is enforced": {instance(manual, at("small-1")), enforced, "revision small-1 (Referenced)", "small"},
		"Who is manual can't leave what is enforced":            {instance(manual, at("large-9")), enforced, "revision large-9 is of another composition than small, which the definition enforces; name one of its revisions in compositionRevisionRef", "small"},
		"Who is manual can't stay with what is gone":            {instance(manual, at("small-7")), nil, "revision small-7, to which compositionUpdatePolicy: Manual pins the instance, does not exist", "small"},
		"Who is manual can't stay with another kind's":          {instance(manual, at("small-4")), nil, "revision small-4 is for another kind", "small"},
		"Who is manual starts with the newest":                  {instance(manual), nil, "revision small-3 (Latest)", "small"},
		"Who is manual starts with the newest, channel or not":  {instance(manual, onChannel("stable")), nil, "revision small-3 (Latest)", "small"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := legacy()
			if tc.change != nil {
				tc.change(d)
			}
			got := xrd.SelectRevision(there, composition(tc.of, nil), tc.instance, d)
			if got.String() != tc.want {
				t.Errorf("want %s\n got %s", tc.want, got)
			}
			if (got.Revision != nil) != (got.Problem == "") || got.Revision != nil && got.Revision.Name != got.Name {
				t.Errorf("%+v is at odds with itself", got)
			}
		})
	}
}

func TestTheRevisionDependsOnNoOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var there []*v1.CompositionRevision
		for i := range rapid.IntRange(0, 8).Draw(t, "revisions") {
			r := revision(rapid.SampledFrom([]string{"small", "large"}).Draw(t, "of"), rapid.Int64Range(1, 4).Draw(t, "number"), anyLabels.Draw(t, "labels"))
			r.Name = fmt.Sprintf("r%d", i)
			there = append(there, r)
		}
		i := instance()
		if rapid.Bool().Draw(t, "selects") {
			i.SetRevisionSelector(anyLabels.Draw(t, "selector"))
		}
		perm := rapid.Permutation(there).Draw(t, "in another order")
		if diff := cmp.Diff(xrd.SelectRevision(there, composition("small", nil), i, legacy()), xrd.SelectRevision(perm, composition("small", nil), i, legacy())); diff != "" {
			t.Fatalf("the order makes a difference to what is chosen: %s", diff)
		}
		c := composition("small", nil)
		if diff := cmp.Diff(xrd.NextRevision(c, there), xrd.NextRevision(c, perm)); diff != "" {
			t.Fatalf("the order makes a difference to what is next: %s", diff)
		}
	})
}

func TestNextRevision(t *testing.T) {
	a := composition("small", map[string]string{"channel": "stable"})
	a.UID = "c-1"
	b := a.DeepCopy()
	b.Labels["channel"] = "fast"

	first := xrd.NextRevision(a, []*v1.CompositionRevision{revision("large", 7, nil)}).Create
	if first == nil || first.Spec.Revision != 1 || first.Spec.CompositeTypeRef != databases {
		t.Fatalf("the first revision is %+v", first)
	}
	if want := "small-" + xrd.Hash(a)[:7]; first.Name != want {
		t.Errorf("want %s, got %s", want, first.Name)
	}
	want := map[string]string{"channel": "stable", v1.CompositionNameLabel: "small", v1.CompositionHashLabel: xrd.Hash(a)}
	if diff := cmp.Diff(want, first.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if !metav1.IsControlledBy(first, a) {
		t.Error("the revision does not go with its composition")
	}
	if again := xrd.NextRevision(a, []*v1.CompositionRevision{first}); again != (xrd.RevisionChange{}) {
		t.Errorf("nothing has changed, yet %+v is next", again)
	}

	second := xrd.NextRevision(b, []*v1.CompositionRevision{first}).Create
	if second == nil || second.Spec.Revision != 2 || second.Name == first.Name {
		t.Fatalf("after a change comes %+v", second)
	}
	back := xrd.NextRevision(a, []*v1.CompositionRevision{first, second})
	if back.Create != nil || back.Renumber == nil || back.Renumber.Name != first.Name || back.Renumber.Spec.Revision != 3 {
		t.Errorf("after the change was taken back comes %+v", back)
	}
	twin := second.DeepCopy()
	twin.Name, twin.Spec.Revision = "small-zzz", 2
	twin.Labels[v1.CompositionHashLabel] = "of another time"
	apart := xrd.NextRevision(b, []*v1.CompositionRevision{first, second, twin})
	if apart.Create != nil || apart.Renumber == nil || apart.Renumber.Name != second.Name || apart.Renumber.Spec.Revision != 3 {
		t.Errorf("while another has its number comes %+v", apart)
	}
	if first.Spec.Revision != 1 {
		t.Error("the revision that was given has changed")
	}
}

// TestHash spells out what is hashed: clusters have revisions that were named by it.
func TestHash(t *testing.T) {
	c := compositionOf(t, `
metadata: {name: small, labels: {b: "2", a: "1"}}
spec:
  compositeTypeRef: {apiVersion: acme.example.com/v1, kind: XDatabase}
  mode: Pipeline
  pipeline:
  - step: render
    functionRef: {name: templating}
    input: {kind: Input, apiVersion: t.example.com/v1}
`)
	sum := sha256.Sum256([]byte(`a: "1"
b: "2"
null
compositeTypeRef:
  apiVersion: acme.example.com/v1
  kind: XDatabase
mode: Pipeline
pipeline:
- functionRef:
    name: templating
  input:
    apiVersion: t.example.com/v1
    kind: Input
  step: render
`))
	if want, got := hex.EncodeToString(sum[:])[:63], xrd.Hash(c); got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

func TestTheDefinitionsSelectorIsForThoseWithoutOne(t *testing.T) {
	stable := map[string]string{"channel": "stable"}
	selecting := func(s metav1.LabelSelector) *v1.CompositeResourceDefinition {
		return &v1.CompositeResourceDefinition{Spec: v1.DefinitionSpec{DefaultCompositionRevisionSelector: &s}}
	}
	byName := metav1.LabelSelectorRequirement{Key: "channel", Operator: metav1.LabelSelectorOpExists}
	cases := map[string]struct {
		instance   xrd.Instance
		definition *v1.CompositeResourceDefinition
		want       map[string]string
	}{
		"One that says nothing":                       {instance(), selecting(metav1.LabelSelector{MatchLabels: stable}), stable},
		"One that stays with its revision":            {instance(manual), selecting(metav1.LabelSelector{MatchLabels: stable}), stable},
		"One that says what it follows":               {instance(onChannel("fast")), selecting(metav1.LabelSelector{MatchLabels: stable}), nil},
		"A definition that says nothing":              {instance(), &v1.CompositeResourceDefinition{}, nil},
		"A selector that the schema has no field for": {instance(), selecting(metav1.LabelSelector{MatchLabels: stable, MatchExpressions: []metav1.LabelSelectorRequirement{byName}}), nil},
	}
	for name, tc := range cases {
		got, applies := xrd.DefaultRevisionSelector(tc.instance, tc.definition)
		if diff := cmp.Diff(tc.want, got); diff != "" || applies != (tc.want != nil) {
			t.Errorf("%s: applies: %t (-want +got):\n%s", name, applies, diff)
		}
	}
}
