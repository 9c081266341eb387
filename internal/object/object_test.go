package object_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/object"
)

func TestPath(t *testing.T) {
	for want, got := range map[string]object.Path{
		"":                                   "",
		"spec":                               object.Path("").Field("spec"),
		"spec.replicas":                      object.Path("spec").Field("replicas"),
		"spec.resources[2].template":         object.Path("spec").Field("resources").Index(2).Field("template"),
		"metadata.labels[\"example.com/a\"]": object.Path("metadata").Field("labels", "example.com/a"),
		"[\"a b\"].c":                        object.Path("").Field("a b", "c"),
		"a[\"\"]":                            object.Path("a").Field(""),
		"a[\"1\"]":                           object.Path("a").Field("1"),
		"a.with-dash.$ref":                   object.Path("a").Field("with-dash", "$ref"),
		"a[\"say \\\"hi\\\"\"]":              object.Path("a").Field(`say "hi"`),
		"[0][1]":                             object.Path("").Index(0).Index(1),
	} {
		if got.String() != want {
			t.Errorf("want %s, got %s", want, got)
		}
	}
}

func TestKey(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "prod", "name": "web"},
	}}
	k := object.KeyOf(o)
	if want := (object.Key{Group: "apps", Kind: "Deployment", Namespace: "prod", Name: "web"}); k != want {
		t.Errorf("want %v, got %v", want, k)
	}
	if got := k.String(); got != "Deployment prod/web" {
		t.Errorf("got %s", got)
	}
	if got := (object.Key{Kind: "Namespace", Name: "prod"}).String(); got != "Namespace prod" {
		t.Errorf("got %s", got)
	}
	if k.GroupKind().String() != "Deployment.apps" {
		t.Errorf("got %s", k.GroupKind())
	}
}

func TestKeyCompare(t *testing.T) {
	want := []object.Key{
		{Kind: "B", Namespace: "z", Name: "z"},
		{Group: "a", Kind: "A", Name: "z"},
		{Group: "a", Kind: "B", Name: "z"},
		{Group: "a", Kind: "B", Namespace: "a", Name: "b"},
		{Group: "a", Kind: "B", Namespace: "b", Name: "a"},
		{Group: "a", Kind: "B", Namespace: "b", Name: "b"},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, object.Key.Compare)
	if !slices.Equal(want, got) {
		t.Errorf("want %v, got %v", want, got)
	}
	if want[0].Compare(want[0]) != 0 {
		t.Error("a key isn't itself")
	}
}

func TestDigest(t *testing.T) {
	a := object.Digest(map[string]any{"a": int64(1), "b": []any{"x", nil}})
	b := object.Digest(map[string]any{"b": []any{"x", nil}, "a": 1.0})
	if a != b {
		t.Error("equal JSON has two digests")
	}
	if a == object.Digest(map[string]any{"a": int64(2), "b": []any{"x", nil}}) {
		t.Error("different JSON has one digest")
	}
	rapid.Check(t, func(t *rapid.T) {
		d := object.Digest(rapid.MapOf(rapid.String(), rapid.Int()).Draw(t, "value"))
		if len(d) != 32 || strings.ToLower(d) != d || len(validation.IsValidLabelValue(d)) > 0 {
			t.Fatalf("%q is no 32 lower-case digits", d)
		}
	})
}
