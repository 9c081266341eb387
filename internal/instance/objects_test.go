package instance

import (
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

func named(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// configMap is a node that wants a ConfigMap called like it, after those that it depends on.
func configMap(id string, after ...string) plan.Node {
	o := named(configMapKind, "prod", id)
	o.Object["data"] = map[string]any{"a": "b"}
	return plan.Node{ID: id, Kind: configMapKind, Object: o, DependsOn: after, Layer: len(after)}
}

func keyOf(name string) object.Key {
	return object.Key{Kind: "ConfigMap", Namespace: "prod", Name: name}
}

func merge(into, change map[string]any) {
	for key, value := range change {
		below, isMap := value.(map[string]any)
		was, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(was, below)
		default:
			into[key] = value
		}
	}
}

// asJSON is a change as it is sent: with plain slices and maps.
func asJSON(change any) map[string]any {
	raw, _ := json.Marshal(change)
	var out map[string]any
	_ = json.Unmarshal(raw, &out)
	return out
}

// owned has the manager own all of an applied object's fields.
func owned(o *unstructured.Unstructured, manager string) map[string]any {
	applied := o.DeepCopy()
	applied.SetManagedFields([]metav1.ManagedFieldsEntry{fieldsEntry(manager, o.Object)})
	unstructured.RemoveNestedField(applied.Object, "metadata", "uid")
	unstructured.RemoveNestedField(applied.Object, "metadata", "resourceVersion")
	return applied.Object
}

func fieldsEntry(manager string, object map[string]any) metav1.ManagedFieldsEntry {
	raw, _ := json.Marshal(fieldsOf(object))
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: raw}}
}

func fieldsOf(value any) map[string]any {
	out := map[string]any{}
	if m, ok := value.(map[string]any); ok {
		for key, v := range m {
			out["f:"+key] = fieldsOf(v)
		}
	}
	return out
}

// replacing is the merge by which a field of an object becomes the value, without what it had.
func replacing(o *unstructured.Unstructured, field string, value map[string]any) map[string]any {
	was, _, _ := unstructured.NestedMap(o.Object, field)
	out := maps.Clone(value)
	for key := range was {
		if _, stays := value[key]; !stays {
			out[key] = nil
		}
	}
	return out
}
