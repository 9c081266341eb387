package observe_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/observe"
)

func TestLinesHaveTheManagersOfValues(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Widget", "apiVersion": "example.com/v1", "status": map[string]any{"ok": true},
		"metadata": map[string]any{
			"name": "w", "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "two\nlines"},
			"managedFields": []any{map[string]any{"manager": "author", "operation": "Apply", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:list": map[string]any{}}}}},
		},
		"spec": map[string]any{"list": []any{map[string]any{"a": int64(1), "b": "yes"}, "x", []any{"y"}, map[string]any{}}, "empty": map[string]any{}},
	}}
	var got []string
	lines, omitted := observe.Lines(o, 15)
	for _, l := range lines {
		got = append(got, strings.Join(append([]string{l.Text, l.Field.String()}, l.Managers...), " | "))
	}
	want := []string{
		"apiVersion: example.com/v1 | apiVersion", "kind: Widget | kind", "metadata: | ", "  name: w | metadata.name", "  annotations: | ",
		`    note: "two\nlines" | metadata.annotations.note`, "spec: | ", "  empty: {} | spec.empty", "  list: | ", "  - a: 1 | spec.list[0].a | author",
		`    b: "yes" | spec.list[0].b | author`, "  - x | spec.list[1] | author", `  - ["y"] | spec.list[2] | author`, "  - {} | spec.list[3] | author", "status: | ",
	}
	if diff := cmp.Diff(want, got); diff != "" || omitted != 1 {
		t.Errorf("%d omitted\n%s", omitted, diff)
	}
}

func TestLinesHideTheDataOfSecrets(t *testing.T) {
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": map[string]any{"password": "aHVudGVyMg=="}, "stringData": map[string]any{"password": "hunter2"},
		"metadata": map[string]any{"name": "login", "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": `{"stringData":{"password":"hunter2"}}`}},
	}}
	lines, _ := observe.Lines(secret, 100)
	text := ""
	for _, l := range lines {
		text += l.Text + "\n"
	}
	if strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVyMg") || strings.Count(text, "  password: (hidden)\n") != 2 || !strings.Contains(text, "type: Opaque\n") {
		t.Errorf("got %s", text)
	}
}
