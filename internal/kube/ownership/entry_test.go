package ownership_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/espalier-dev/espalier/internal/kube/ownership"
)

func entry(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
	e := metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, Subresource: subresource}
	if fields != "" {
		e.FieldsV1 = &metav1.FieldsV1{Raw: []byte(fields)}
	}
	return e
}

func managed(entries ...metav1.ManagedFieldsEntry) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetManagedFields(entries)
	return o
}

func set(t testing.TB, fields string) *fieldpath.Set {
	t.Helper()
	s := ownership.Decode(entry("", "", "", fields))
	if s.Empty() && fields != "{}" {
		t.Fatalf("not a set of fields: %s", fields)
	}
	return s
}

const (
	apply  = metav1.ManagedFieldsOperationApply
	update = metav1.ManagedFieldsOperationUpdate
)

func TestOwners(t *testing.T) {
	o := managed(
		entry("kubectl", update, "", `{"f:metadata":{"f:finalizers":{".":{},"v:\"b\"":{}}},"f:spec":{"f:ports":{"k:{\"port\":80}":{".":{},"f:port":{}}}}}`),
		entry("helm", apply, "", `{"f:metadata":{"f:finalizers":{"v:\"a\"":{}},"f:annotations":{"f:example.org/x":{}}}}`),
		entry("helm", update, "", `{"f:metadata":{"f:finalizers":{"v:\"a\"":{}}}}`),
		entry("argocd", update, "", `{"f:metadata":{"f:finalizers":{"v:\"a\"":{}}}}`),
		entry("broken", update, "", `[]`),
		entry("none", update, "", ""),
	)
	finalizers := ownership.Path("metadata", "finalizers")
	cases := map[string]struct {
		reason string
		path   fieldpath.Path
		want   []string
	}{
		"An item of a set":            {"each manager is named once, in order", ownership.ItemOf(finalizers, "a"), []string{"argocd", "helm"}},
		"Another item of it":          {"items have owners of their own", ownership.ItemOf(finalizers, "b"), []string{"kubectl"}},
		"The set":                     {"the owner of an item owns a part of it", finalizers, []string{"argocd", "helm", "kubectl"}},
		"A branch without a member":   {"owners of fields below it are returned", ownership.Path("spec", "ports"), []string{"kubectl"}},
		"A name with dots":            {"a name is one element", ownership.Path("metadata", "annotations", "example.org/x"), []string{"helm"}},
		"Below what is owned":         {"it is another path", ownership.Path("metadata", "annotations", "example.org/x", "y"), nil},
		"An unowned path":             {"the path ends somewhere else", ownership.Path("status", "phase"), nil},
		"An unowned sibling":          {"the names differ", ownership.Path("spec", "replicas"), nil},
		"A missing item":              {"the values differ", ownership.ItemOf(finalizers, "c"), nil},
		"An item of the wrong number": {"a text is no number", ownership.ItemOf(finalizers, int64(1)), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ownership.Owners(o, tc.path)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAppliedFields(t *testing.T) {
	o := managed(
		entry("other", apply, "", `{"f:a":{}}`),
		entry("ours", update, "", `{"f:b":{}}`),
		entry("ours", apply, "status", `{"f:c":{}}`),
		entry("ours", apply, "", `{"f:d":{"f:e":{}}}`),
	)
	if got, want := ownership.AppliedFields(o, "ours"), set(t, `{"f:d":{"f:e":{}}}`); !got.Equals(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, o := range []*unstructured.Unstructured{managed(entry("ours", update, "", `{"f:b":{}}`)), {Object: map[string]any{}}, {}} {
		if got := ownership.AppliedFields(o, "ours"); !got.Empty() {
			t.Errorf("the manager has applied nothing, and owns\n%s", got)
		}
	}
}

// What an object in a cache says is read as the library reads an entry.
func TestEntriesAreReadAsTheLibraryReadsThem(t *testing.T) {
	element := rapid.Custom(func(t *rapid.T) fieldpath.PathElement {
		word := rapid.SampledFrom([]string{"a", "b", "example.org/x", `q"<&é`})
		number := rapid.SampledFrom([]any{int64(1), int64(-80), 1.5, true, "x"})
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			return fieldpath.ValueElement(value.NewValueInterface(number.Draw(t, "value")))
		case 1:
			return fieldpath.KeyElementByFields(word.Draw(t, "name"), number.Draw(t, "key"))
		case 2:
			return fieldpath.KeyElementByFields("name", word.Draw(t, "name"), "port", number.Draw(t, "port"))
		case 3:
			return fieldpath.IndexElement(rapid.IntRange(0, 9).Draw(t, "index"))
		}
		return fieldpath.FieldNameElement(word.Draw(t, "field"))
	})
	rapid.Check(t, func(t *rapid.T) {
		want := &fieldpath.Set{}
		for _, path := range rapid.SliceOfN(rapid.SliceOfN(element, 1, 4), 0, 8).Draw(t, "paths") {
			want.Insert(path)
		}
		e := metav1.ManagedFieldsEntry{Manager: "m", Operation: apply, FieldsV1: ownership.Encode(want)}
		want = ownership.Decode(e) // numbers are floats in JSON
		for cached := range ownership.Entries(managed(e)) {
			if got := cached.Fields(); !got.Equals(want) {
				t.Fatalf("%s: got\n%s\nwant\n%s", e.FieldsV1.GetRawString(), got, want)
			}
		}
	})
}

func TestEntriesThatTheLibraryCannotRead(t *testing.T) {
	cases := map[string]struct {
		reason, fields string
		want           string
	}{
		"An element of a later version": {"it is left out", `{"x:a":{},"f:b":{}}`, `{"f:b":{}}`},
		"Only such elements below":      {"the field itself is owned", `{"f:a":{"x:b":{}}}`, `{"f:a":{}}`},
		"An element without a type":     {"the entry owns nothing", `{"f:a":{},"b":{}}`, `{}`},
		"A broken key":                  {"the entry owns nothing", `{"f:a":{"k:{":{}},"f:b":{}}`, `{}`},
		"A field without a set":         {"it is owned as a whole", `{"f:a":null}`, `{"f:a":{}}`},
		"A member by itself":            {"it is owned as a whole", `{"f:a":{".":{}}}`, `{"f:a":{}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := set(t, tc.want)
			if got := ownership.Decode(entry("", "", "", tc.fields)); !got.Equals(want) {
				t.Errorf("%s: decoded\n%s", tc.reason, got)
			}
			var fields map[string]any
			if err := json.Unmarshal([]byte(tc.fields), &fields); err != nil {
				t.Fatal(err)
			}
			if got := ownership.EntryOf(map[string]any{"fieldsV1": fields}).Fields(); !got.Equals(want) {
				t.Errorf("%s: read from an object\n%s", tc.reason, got)
			}
		})
	}
}

func TestForget(t *testing.T) {
	fields := func(text string) map[string]any {
		var out map[string]any
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return map[string]any{"fieldsV1": out}
	}
	got := fields(`{"f:metadata":{"f:labels":{"f:a":{}},"f:ownerReferences":{"k:{\"uid\":\"1\"}":{}}}}`)
	ownership.RemoveField(got, "metadata", "ownerReferences")
	if diff := cmp.Diff(fields(`{"f:metadata":{"f:labels":{"f:a":{}}}}`), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, entry := range []map[string]any{fields(`{"f:data":{}}`), fields(`{"f:metadata":null}`), {}} {
		ownership.RemoveField(entry, "metadata", "ownerReferences") // there is nothing to forget
	}
}

// BenchmarkFields decodes the fields of a ConfigMap as a cache holds them, and BenchmarkDecode
// does so by their JSON.
func BenchmarkFields(b *testing.B) {
	o := managed(benchmarked)
	b.ReportAllocs()
	for b.Loop() {
		ownership.AppliedFields(o, "ours")
	}
}

func BenchmarkDecode(b *testing.B) {
	o := managed(benchmarked)
	b.ReportAllocs()
	for b.Loop() {
		for _, e := range o.GetManagedFields() {
			ownership.Decode(e)
		}
	}
}

var benchmarked = entry("ours", apply, "", `{"f:data":{"f:a":{},"f:b":{},"f:c":{},"f:d":{}},"f:metadata":{"f:annotations":{"f:espalier.dev/applied":{}},"f:labels":{"f:a":{},"f:b":{},"f:c":{}}}}`)
