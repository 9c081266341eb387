package managedfields_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// recorded are objects as other engines have left them on a live cluster.
func recorded(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile("testdata/recorded.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for doc := range bytes.SplitSeq(raw, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &o.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

func setOf(t *testing.T, e metav1.ManagedFieldsEntry) *fieldpath.Set {
	t.Helper()
	var set fieldpath.Set
	if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
		t.Fatalf("the fields of %s can't be read: %v", e.Manager, err)
	}
	return &set
}

// show lists the managers of the fields of an object.
func show(t *testing.T, o *unstructured.Unstructured, entries []metav1.ManagedFieldsEntry) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", o.GetKind(), o.GetName())
	for _, e := range entries {
		fmt.Fprintf(&b, "  %s %s %s\n", e.Manager, e.Operation, e.Subresource)
		var paths []string
		setOf(t, e).Iterate(func(p fieldpath.Path) { paths = append(paths, p.String()) })
		slices.Sort(paths)
		for _, p := range paths {
			fmt.Fprintf(&b, "    %s\n", p)
		}
	}
	return b.String()
}

func TestTransfer(t *testing.T) {
	var b strings.Builder
	for _, o := range recorded(t) {
		entries, changed := managedfields.Selector(managedfields.IsForeign).Transfer(o)
		if !changed {
			t.Errorf("%s %s: nothing is transferred", o.GetKind(), o.GetName())
		}
		b.WriteString(show(t, o, entries))
	}
	golden.Compare(t, "testdata/transferred.txt", b.String())
}

func TestATransferLosesNoFieldAndIsIdempotent(t *testing.T) {
	for _, o := range recorded(t) {
		before := o.DeepCopy()
		entries, _ := managedfields.Selector(managedfields.IsForeign).Transfer(o)
		if diff := cmp.Diff(before, o); diff != "" {
			t.Errorf("%s %s was changed:\n%s", o.GetKind(), o.GetName(), diff)
		}
		had, has := fieldpath.NewSet(), fieldpath.NewSet()
		for _, e := range o.GetManagedFields() {
			had = had.Union(setOf(t, e))
		}
		for _, e := range entries {
			has = has.Union(setOf(t, e))
		}
		// A map that another manager owns as well needs no owner of its own: it stays as
		// long as one of its fields does.
		if lost := had.Leaves().Difference(has); !lost.Empty() {
			t.Errorf("%s %s: no manager owns %s any more", o.GetKind(), o.GetName(), lost)
		}
		o.SetManagedFields(entries)
		if again, changed := managedfields.Selector(managedfields.IsForeign).Transfer(o); changed || managedfields.NeedsTransfer(o, managedfields.IsForeign) || cmp.Diff(entries, again) != "" {
			t.Errorf("%s %s: there is more to transfer", o.GetKind(), o.GetName())
		}
	}
}

func TestNothingIsTransferredWithoutFormerEngines(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	fields := &metav1.FieldsV1{Raw: []byte(`{"f:data":{"f:a":{}}}`)}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: v1alpha1.ChildManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: fields},
		{Manager: "kubectl-client-side-apply", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: fields},
		{Manager: "crossplane", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", FieldsV1: fields},
		{Manager: "crossplane", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: fields}, // a package manager
	})
	if _, changed := managedfields.Selector(managedfields.IsForeign).Transfer(o); changed || managedfields.NeedsTransfer(o, managedfields.IsForeign) {
		t.Error("it is transferred")
	}
}

func TestATransferMergesEntries(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	early, late := metav1.Unix(100, 0), metav1.Unix(200, 0)
	o.SetManagedFields([]metav1.ManagedFieldsEntry{
		{
			Manager: "apiextensions.crossplane.io/composed/1f", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &late,
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{"f:a":{},"f:b":{}},"f:list":{"k:{\"name\":\"x\"}":{".":{},"f:v":{}}}}`)},
		},
		{
			Manager: v1alpha1.ChildManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &early,
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{"f:b":{},"f:c":{}},"f:list":{"k:{\"name\":\"x\"}":{}}}`)},
		},
	})
	entries, _ := managedfields.Selector(managedfields.IsForeign).Transfer(o)
	want := []metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.ChildManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &late,
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{"f:a":{},"f:b":{},"f:c":{}},"f:list":{"k:{\"name\":\"x\"}":{".":{},"f:v":{}}}}`)},
	}}
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUpdatedFieldsAreTheParentsUnlessTheyAreTheEnginesOwn(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"claimRef": map[string]any{"apiVersion": "example.org/v1", "kind": "Claim", "name": "x"}}}}
	o.SetFinalizers([]string{"composite.apiextensions.crossplane.io"})
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "crossplane", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "example.org/v1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:finalizers":{},"f:labels":{".":{},"f:crossplane.io/composite":{}}},"f:spec":{".":{},"f:size":{},"f:resourceRefs":{}}}`)},
	}})
	entries, _ := managedfields.Selector(managedfields.IsForeign).Transfer(o)
	want := []metav1.ManagedFieldsEntry{
		{
			Manager: v1alpha1.InstanceManager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "example.org/v1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:finalizers":{},"f:labels":{"f:crossplane.io/composite":{}}},"f:spec":{"f:resourceRefs":{}}}`)},
		},
		{
			Manager: v1alpha1.ChildManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "example.org/v1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:size":{}}}`)},
		},
	}
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStringDataOfASecretBecomeData(t *testing.T) {
	const former = "apiextensions.crossplane.io/composed/1f"
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	for name, tc := range map[string]struct {
		reason    string
		kind      string
		has, want []metav1.ManagedFieldsEntry
	}{
		"Of another engine": {
			"its values are stored as data", "Secret",
			[]metav1.ManagedFieldsEntry{entry(former, `{"f:stringData":{"f:a":{}},"f:type":{}}`)},
			[]metav1.ManagedFieldsEntry{entry(v1alpha1.ChildManager, `{"f:data":{"f:a":{}},"f:type":{}}`)},
		},
		"Of a former version": {
			"a key that is no longer desired would stay", "Secret",
			[]metav1.ManagedFieldsEntry{entry("other", `{"f:stringData":{"f:c":{}}}`), entry(v1alpha1.ChildManager, `{"f:data":{"f:b":{}},"f:stringData":{"f:a":{}}}`)},
			[]metav1.ManagedFieldsEntry{entry("other", `{"f:stringData":{"f:c":{}}}`), entry(v1alpha1.ChildManager, `{"f:data":{"f:a":{},"f:b":{}}}`)},
		},
		"An empty map": {
			"it stays one", "Secret",
			[]metav1.ManagedFieldsEntry{entry(v1alpha1.ChildManager, `{"f:stringData":{}}`)},
			[]metav1.ManagedFieldsEntry{entry(v1alpha1.ChildManager, `{"f:data":{}}`)},
		},
		"Of another kind": {
			"the field is like any other", "ConfigMap",
			[]metav1.ManagedFieldsEntry{entry(v1alpha1.ChildManager, `{"f:stringData":{"f:a":{}}}`)},
			[]metav1.ManagedFieldsEntry{entry(v1alpha1.ChildManager, `{"f:stringData":{"f:a":{}}}`)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": tc.kind}}
			o.SetManagedFields(tc.has)
			entries, changed := managedfields.Selector(managedfields.IsForeign).Transfer(o)
			if diff := cmp.Diff(tc.want, entries); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if wanted := cmp.Diff(tc.has, tc.want) != ""; changed != wanted || managedfields.NeedsTransfer(o, managedfields.IsForeign) != wanted {
				t.Errorf("%s: changed is %t", tc.reason, changed)
			}
			if applied := managedfields.Applied(o, v1alpha1.ChildManager); !applied.Equals(setOf(t, tc.want[len(tc.want)-1])) {
				t.Errorf("%s: applied are\n%s", tc.reason, applied)
			}
			o.SetManagedFields(entries)
			if managedfields.NeedsTransfer(o, managedfields.IsForeign) {
				t.Error("there is more to transfer")
			}
		})
	}
}
