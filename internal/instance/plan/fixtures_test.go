package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

var (
	now       = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	owner     = inventory.Owner{
		Kind:      schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "Vpc"},
		Namespace: "prod", Name: "main", UID: "i-1", Version: "v1", Keys: signing.Keys(),
	}
)

// wants is a node that renders a ConfigMap of the given name.
func wants(id string, layer int, name string) plan.Node {
	return plan.Node{ID: id, Kind: configMap, Layer: layer, Object: rendered(name)}
}

func rendered(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"a": "b"}}}
	o.SetGroupVersionKind(configMap)
	o.SetNamespace("prod")
	o.SetName(name)
	return o
}

// has is the node with its object as an API server has it after the node's own
// was applied.
func has(n plan.Node, with ...func(*unstructured.Unstructured)) plan.Node {
	n.Observed, n.Ready = stored(n.Object, n.ID, n.Layer), true
	for _, change := range with {
		change(n.Observed)
	}
	return n
}

// stored is what an API server makes of an object that a node applied.
func stored(o *unstructured.Unstructured, node string, layer int) *unstructured.Unstructured {
	o = o.DeepCopy()
	owner.Mark(o, inventory.Place{Node: node, Layer: layer})
	o.SetManagedFields([]metav1.ManagedFieldsEntry{entry(fieldsOf(o.Object))})
	o.SetUID(types.UID("uid-" + o.GetName()))
	return o
}

func entry(fields map[string]any) metav1.ManagedFieldsEntry {
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return metav1.ManagedFieldsEntry{
		Manager: v1alpha1.ChildManager, Operation: metav1.ManagedFieldsOperationApply,
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: raw},
	}
}

// fieldsOf is the FieldsV1 of a value whose lists are all owned as a whole.
func fieldsOf(value any) map[string]any {
	out := map[string]any{}
	if m, ok := value.(map[string]any); ok {
		for key, v := range m {
			out["f:"+key] = fieldsOf(v)
		}
	}
	return out
}

func dying(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&metav1.Time{Time: now}) }

// endsAt is for an object that is being deleted with a grace period.
func endsAt(end time.Time, grace time.Duration) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		seconds := int64(grace / time.Second)
		o.SetDeletionTimestamp(&metav1.Time{Time: end})
		o.SetDeletionGracePeriodSeconds(&seconds)
	}
}

// ofGraph has a Graph of kro's apply an object, too.
func ofGraph(o *unstructured.Unstructured) {
	o.SetManagedFields(append(o.GetManagedFields(), metav1.ManagedFieldsEntry{
		Manager: "kro-graphengine.tmpl.0123456789ab", Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:other":{}}`)},
	}))
}

// lost takes the ownership of data.a away.
func lost(o *unstructured.Unstructured) {
	fields := fieldsOf(o.Object)
	fields["f:data"] = map[string]any{"f:other": map[string]any{}}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{entry(fields)})
}

// owned sorts children as facts have them.
func owned(children ...*unstructured.Unstructured) map[string][]*unstructured.Unstructured {
	out := map[string][]*unstructured.Unstructured{}
	for _, c := range children {
		out[inventory.Node(c)] = append(out[inventory.Node(c)], c)
	}
	return out
}

func names(objects []*unstructured.Unstructured) []string {
	var out []string
	for _, o := range objects {
		out = append(out, o.GetName())
	}
	return out
}

// document reads YAML as a cache holds it: its integers are int64.
func document(t testing.TB, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
