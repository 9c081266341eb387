package plan_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

func TestLost(t *testing.T) {
	cases := map[string]struct {
		reason  string
		desired string
		fields  string
		want    []object.Path
	}{
		"An owned field isn't lost": {
			reason:  "the manager owns all that it applied",
			desired: `{metadata: {name: x, labels: {a: b}}, data: {a: "1", b: "2"}}`,
			fields:  `{"f:metadata": {"f:labels": {"f:a": {}}}, "f:data": {".": {}, "f:a": {}, "f:b": {}}}`,
		},
		"A field that another manager took over is lost": {
			reason:  "another manager owns its value",
			desired: `{data: {a: "1", b: "2"}}`,
			fields:  `{"f:data": {"f:b": {}}}`,
			want:    []object.Path{"data.a"},
		},
		"Names that could be misread are quoted": {
			reason:  "paths are shown to users",
			desired: `{metadata: {annotations: {example.com/x: "1"}}}`,
			fields:  `{"f:metadata": {"f:annotations": {"f:other": {}}}}`,
			want:    []object.Path{`metadata.annotations["example.com/x"]`},
		},
		"A branch that is lost completely is listed by its leaves": {
			reason:  "they are the fields that were written",
			desired: `{spec: {template: {a: {b: c}}, replicas: 1}}`,
			fields:  `{"f:spec": {"f:replicas": {}}}`,
			want:    []object.Path{"spec.template.a.b"},
		},
		"A manager without an entry has lost everything": {
			reason:  "another client removed the entry",
			desired: `{metadata: {name: x, labels: {a: b}}, data: {a: "1"}, spec: {b: 1}}`,
			want:    []object.Path{"data.a", "metadata.labels.a", "spec.b"},
		},
		"No manager owns the identity of an object": {
			reason:  "the server doesn't list it",
			desired: `{apiVersion: v1, kind: X, metadata: {name: x, namespace: y, uid: z, resourceVersion: "1", generation: 1}}`,
		},
		"Null desires nothing": {
			reason:  "an apply configuration with null sets no field",
			desired: `{data: {a: null}, spec: null}`,
			fields:  `{"f:data": {"f:b": {}}}`,
		},
		"A list that is owned as a whole has no items to lose": {
			reason:  "atomic lists have one owner",
			desired: `{spec: {args: [a, b]}}`,
			fields:  `{"f:spec": {"f:args": {}}}`,
		},
		"An item of a set is found by its value": {
			reason:  "a set's items have owners of their own",
			desired: `{metadata: {finalizers: [a, b]}}`,
			fields:  `{"f:metadata": {"f:finalizers": {".": {}, "v:\"a\"": {}}}}`,
			want:    []object.Path{"metadata.finalizers[1]"},
		},
		"Items of a set may be numbers, and texts with brackets": {
			reason:  "they are compared as values, not as text",
			desired: `{spec: {ports: [80, 81], names: ["a<b>&c", "d"]}}`,
			fields:  `{"f:spec": {"f:ports": {"v:80": {}, "v:81": {}}, "f:names": {"v:\"a<b>&c\"": {}, "v:\"d\"": {}}}}`,
		},
		"An item of an associative list is found by its keys": {
			reason:  "the index in the list means nothing",
			desired: `{spec: {ports: [{port: 80, protocol: TCP, name: x}, {port: 81, protocol: TCP, name: y}]}}`,
			fields: `{"f:spec": {"f:ports": {
				"k:{\"port\":81,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}},
				"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:protocol": {}}}}}`,
			want: []object.Path{"spec.ports[0].name"},
		},
		"A key that was defaulted matches anything": {
			reason:  "the server sets it; the template doesn't",
			desired: `{spec: {ports: [{port: 80, name: x}]}}`,
			fields:  `{"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}}}}`,
		},
		"An item that another manager removed is lost": {
			reason:  "no entry has its keys",
			desired: `{spec: {ports: [{port: 80}, {port: 81}]}}`,
			fields:  `{"f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:port": {}}}}}`,
			want:    []object.Path{"spec.ports[1]"},
		},
		"A map that is wanted empty is owned as such": {
			reason:  "the empty map was applied",
			desired: `{spec: {emptyDir: {}}}`,
			fields:  `{"f:spec": {"f:emptyDir": {}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			desired := &unstructured.Unstructured{Object: document(t, tc.desired)}
			current := &unstructured.Unstructured{Object: map[string]any{}}
			if tc.fields != "" {
				current.SetManagedFields([]metav1.ManagedFieldsEntry{
					{Manager: "kubectl", Operation: "Apply", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data": {"f:other": {}}}`)}},
					{Manager: v1alpha1.ChildManager, Operation: "Apply", FieldsV1: &metav1.FieldsV1{Raw: []byte(tc.fields)}},
					{Manager: v1alpha1.ChildManager, Operation: "Update", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{}`)}},
					{Manager: v1alpha1.ChildManager, Operation: "Apply", Subresource: "status", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{}`)}},
				})
			}
			if diff := cmp.Diff(tc.want, plan.LostFields(desired, current, v1alpha1.ChildManager)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// thing is a schema with every kind of list and map.
const thing = `types:
- name: thing
  map:
    fields:
    - {name: text, type: {scalar: string}}
    - {name: labels, type: {map: {elementType: {scalar: string}}}}
    - {name: set, type: {list: {elementType: {scalar: string}, elementRelationship: associative}}}
    - {name: numbers, type: {list: {elementType: {scalar: numeric}, elementRelationship: associative}}}
    - {name: atomic, type: {list: {elementType: {scalar: string}, elementRelationship: atomic}}}
    - name: ports
      type:
        list:
          elementRelationship: associative
          keys: [port, protocol]
          elementType: {namedType: port}
- name: port
  map:
    fields:
    - {name: port, type: {scalar: numeric}}
    - {name: protocol, type: {scalar: string}, default: TCP}
    - {name: name, type: {scalar: string}}
    - {name: tags, type: {list: {elementType: {scalar: string}, elementRelationship: associative}}}
`

// TestLostFieldsKnowsTheFormat checks against the library that writes managed fields:
// nothing is lost of what it says is owned, and what it says was taken is lost.
func TestLostFieldsKnowsTheFormat(t *testing.T) {
	parser, err := typed.NewParser(thing)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		desired := drawThing(t)
		value, err := parser.Type("thing").FromUnstructured(desired)
		if err != nil {
			t.Fatal(err)
		}
		set, err := value.ToFieldSet()
		if err != nil {
			t.Fatal(err)
		}
		wanted := &unstructured.Unstructured{Object: desired}
		if got := plan.LostFields(wanted, owning(t, set), v1alpha1.ChildManager); len(got) > 0 {
			t.Fatalf("lost %v of what is owned", got)
		}
		var taken []fieldpath.Path
		set.Leaves().Iterate(func(p fieldpath.Path) {
			// Keys are told by their item; an item's own entry by its fields.
			if last := p[len(p)-1]; last.FieldName == nil || (*last.FieldName != "port" && *last.FieldName != "protocol") {
				taken = append(taken, slices.Clone(p))
			}
		})
		if len(taken) == 0 {
			return
		}
		gone := rapid.SampledFrom(taken).Draw(t, "taken")
		left := set.Difference(fieldpath.NewSet(gone))
		if got := plan.LostFields(wanted, owning(t, left), v1alpha1.ChildManager); len(got) == 0 {
			t.Fatalf("%v was lost, and is not reported", gone)
		}
	})
}

func owning(t *rapid.T, set *fieldpath.Set) *unstructured.Unstructured {
	raw, err := set.ToJSON()
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.ChildManager, Operation: "Apply", FieldsV1: &metav1.FieldsV1{Raw: bytes.TrimSpace(raw)},
	}})
	return o
}

func drawThing(t *rapid.T) map[string]any {
	word := rapid.StringMatching(`[a-z<>&"é]{1,4}`)
	words := func(label string) []any {
		var out []any
		for _, w := range rapid.SliceOfNDistinct(word, 1, 3, rapid.ID).Draw(t, label) {
			out = append(out, w)
		}
		return out
	}
	labels := map[string]any{}
	for _, w := range words("labels") {
		labels[w.(string)] = "x"
	}
	out := map[string]any{"text": "x", "labels": labels, "set": words("set"), "atomic": words("atomic")}
	var numbers, ports []any
	for _, n := range rapid.SliceOfNDistinct(rapid.Int64Range(1, 9), 1, 3, rapid.ID).Draw(t, "numbers") {
		numbers = append(numbers, n)
		port := map[string]any{"port": n, "name": strings.Repeat("n", int(n)), "tags": words("tags")}
		if rapid.Bool().Draw(t, "protocol") {
			port["protocol"] = "UDP"
		}
		ports = append(ports, port)
	}
	out["numbers"], out["ports"] = numbers, ports
	return out
}
