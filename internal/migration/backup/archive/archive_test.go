package archive

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// parse decodes an object.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o, err := DecodeObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestGolden exports and imports the object of each file: the live object, its exported form,
// and the form in which an import creates it.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		live := parse(t, a.Input["live"])
		exported := Strip(live)
		if live.GetKind() == "Stall" {
			exported = StripExceptStatus(live)
		}
		imported := Imported(exported, "import-x/uid-of-hold")
		if exported.GetKind() == "Binding" {
			imported = ForOwner(imported, "new-uid")
		}
		a.Record("exported", encoded(t, exported))
		a.Record("imported", encoded(t, imported))
	})
}

func encoded(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	raw, err := Encode(o)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(string(raw), "---\n")
}

// definition returns a definition of a kind that composes others.
func definition(t *testing.T, name, kind string, composes ...string) *unstructured.Unstructured {
	t.Helper()
	text := "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: " + name + "}\nspec:\n  schema: {apiVersion: v1, kind: " + kind + "}\n  resources:\n"
	for _, k := range composes {
		text += "  - {id: a" + strings.ToLower(k) + ", template: {apiVersion: kro.run/v1, kind: " + k + ", metadata: {name: x}}}\n"
	}
	return parse(t, text)
}

func names(objects []*unstructured.Unstructured) string {
	var out []string
	for _, o := range objects {
		out = append(out, o.GetName())
	}
	return strings.Join(out, " ")
}

func TestOrderPutsDefinitionsAfterTheDefinitionsOfKindsTheyCompose(t *testing.T) {
	cases := map[string]struct {
		definitions []*unstructured.Unstructured
		want        string
	}{
		"independent definitions are sorted by name": {[]*unstructured.Unstructured{definition(t, "b", "B"), definition(t, "a", "A")}, "a b"},
		"definitions of composed kinds are first":    {[]*unstructured.Unstructured{definition(t, "a", "A", "B"), definition(t, "b", "B", "C"), definition(t, "c", "C")}, "c b a"},
		"a cycle is sorted by name":                  {[]*unstructured.Unstructured{definition(t, "b", "B", "A"), definition(t, "a", "A", "B")}, "a b"},
	}
	for name, tc := range cases {
		if got := names(Order(tc.definitions)); got != tc.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestComposing(t *testing.T) {
	all := []*unstructured.Unstructured{definition(t, "a", "A", "B"), definition(t, "b", "B", "C"), definition(t, "d", "D", "C", "B")}
	var got []string
	for _, key := range Composing(all, schema.GroupVersionKind{Group: "kro.run", Version: "v1", Kind: "B"}) {
		got = append(got, key.Name)
	}
	if diff := cmp.Diff([]string{"a", "d"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWithDependencies(t *testing.T) {
	all := []*unstructured.Unstructured{definition(t, "a", "A", "B"), definition(t, "b", "B", "C", "Leaf"), definition(t, "c", "C"), definition(t, "d", "D", "A")}
	chosen, unknown := WithDependencies(all, []string{"a", "z"}, nil)
	if got := names(chosen); got != "a b c" || !slices.Equal(unknown, []string{"z"}) {
		t.Errorf("chosen: %s, unknown: %v", got, unknown)
	}
	if diff := cmp.Diff([]Kind{{"kro.run/v1", "Leaf"}}, Requires(chosen)); diff != "" {
		t.Errorf("required, -want +got:\n%s", diff)
	}
}

const bucketAndBinding = `---
apiVersion: sandbox.espalier.dev/v1alpha1
kind: Bucket
metadata: {name: a, namespace: prod}
spec: {forProvider: {size: 12345678901}}
---
apiVersion: espalier.dev/v1alpha1
kind: Binding
metadata: {name: k-1}
spec: {phase: Reserved, owner: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Bucket, namespace: prod, name: a, uid: old}}
`

func header(t *testing.T, counts map[string]int) string {
	t.Helper()
	h := NewHeader("x", time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC), "here", "v1")
	h.Counts = counts
	raw, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var counted = map[string]int{"Bucket.sandbox.espalier.dev": 1, "Binding.espalier.dev": 1}

func TestDecodeSortsIntoSections(t *testing.T) {
	bindingFirst := "---\n" + strings.SplitAfter(bucketAndBinding, "---\n")[2] + "---\n" + strings.TrimSuffix(strings.SplitAfter(bucketAndBinding, "---\n")[1], "---\n")
	f, err := Decode(strings.NewReader(header(t, counted)+bindingFirst), MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range f.Objects() {
		got = append(got, object.KeyOf(o).String())
	}
	if diff := cmp.Diff([]string{"Bucket prod/a", "Binding k-1"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if size, _, _ := unstructured.NestedInt64(f.Objects()[0].Object, "spec", "forProvider", "size"); size != 12345678901 {
		t.Errorf("the number is decoded as %d", size)
	}
	if problems := f.Check(); len(problems) > 0 {
		t.Errorf("unexpected problems: %q", problems)
	}
}

func TestCheckReportsProblems(t *testing.T) {
	cases := map[string]struct {
		text string
		want []string
	}{
		"a truncated file": {header(t, counted) + strings.SplitAfter(bucketAndBinding, "12345678901}}\n")[0],
			[]string{"0 objects of Binding.espalier.dev, but the header counts 1: the file was truncated or changed"}},
		"a Binding without its managed resource": {header(t, map[string]int{"Binding.espalier.dev": 1}) + "---\n" + strings.SplitAfter(bucketAndBinding, "---\n")[2],
			[]string{"Binding k-1 belongs to Bucket prod/a, which is not in the export"}},
		"an object that appears twice": {header(t, map[string]int{"Bucket.sandbox.espalier.dev": 2, "Binding.espalier.dev": 1}) + bucketAndBinding + "---\n" + strings.SplitAfter(bucketAndBinding, "---\n")[1],
			[]string{"Bucket prod/a appears twice"}},
	}
	for name, tc := range cases {
		f, err := Decode(strings.NewReader(tc.text), MaxBytes)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, f.Check()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	for name, text := range map[string]string{"nothing": "", "something else": bucketAndBinding} {
		if _, err := Decode(strings.NewReader(text), MaxBytes); !errors.Is(err, ErrNotAnExport) {
			t.Errorf("%s: Decode returned %v", name, err)
		}
	}
	for name, tc := range map[string]struct{ text, want string }{
		"no YAML":               {"\x1f\x8c", "decode the header, the first document: "},
		"a header of no type":   {strings.Replace(header(t, counted), "format: 2", "format: two", 1), "decode the header, the first document: "},
		"a header of no format": {strings.Replace(header(t, counted), "format: 2\n", "", 1), "the header has no format"},
		"a negative format":     {strings.Replace(header(t, counted), "format: 2\n", "format: -1\n", 1), "the header has the invalid format -1"},
		"a compressed file":     {"\x1f\x8b\x08\x00", "it is compressed; decompress it first: gunzip -c FILE | espalier import -"},
	} {
		if _, err := Decode(strings.NewReader(tc.text), MaxBytes); err == nil || errors.Is(err, ErrNotAnExport) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Decode returned %v", name, err)
		}
	}
	later := strings.Replace(header(t, counted), "format: 2", "format: 3", 1)
	if _, err := Decode(strings.NewReader(later), MaxBytes); err == nil || !strings.Contains(err.Error(), "has format 3") {
		t.Errorf("a later format: Decode returned %v", err)
	}
}

func TestForOwnerRenamesABindingNamedByUID(t *testing.T) {
	cases := map[string]struct{ name, want string }{
		"named by its managed resource's UID": {"u-old", "u-new"},
		"named by its key":                    {"k-1", "k-1"},
	}
	for name, tc := range cases {
		b := parse(t, strings.Replace(strings.SplitAfter(bucketAndBinding, "---\n")[2], "k-1", tc.name, 1))
		got := ForOwner(b, "new")
		if _, uid := Owner(got); got.GetName() != tc.want || uid != "new" {
			t.Errorf("%s: got %s of %s", name, got.GetName(), uid)
		}
		if _, uid := Owner(b); uid != "old" {
			t.Errorf("%s: the argument was modified", name)
		}
	}
}

func TestAnExportRecordsADeletion(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC))
	for finalizer, want := range map[string]metav1.DeletionPropagation{"kro.run/finalizer": metav1.DeletePropagationBackground, "orphan": metav1.DeletePropagationOrphan} {
		o := parse(t, "apiVersion: v1\nkind: X\nmetadata: {name: a}\n")
		o.SetDeletionTimestamp(&now)
		o.SetFinalizers([]string{finalizer})
		exported := Strip(o)
		if policy, deleting := Deleting(exported); !deleting || policy != want || exported.GetDeletionTimestamp() != nil {
			t.Errorf("%s: got %q, %t", finalizer, policy, deleting)
		}
		if _, deleting := Deleting(Imported(exported, "x/y")); deleting {
			t.Errorf("%s: the imported object has the annotation", finalizer)
		}
	}
}

func TestSecretsOfAConfiguration(t *testing.T) {
	o := parse(t, "apiVersion: x.dev/v1\nkind: ProviderConfig\nmetadata: {name: a, namespace: ns}\nspec: {credentials: {source: Secret, secretRef: {name: s, namespace: other, key: k}}, more: [{secretKeyRef: {name: t}}]}\n")
	if diff := cmp.Diff([][2]string{{"other", "s"}, {"ns", "t"}}, SecretsOf(o)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
