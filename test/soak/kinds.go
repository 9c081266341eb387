package main

import (
	"encoding/base64"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// group is that of the kinds that definitions define, foreign that of a kind that comes and goes.
	group   = "soak.example.com"
	foreign = "foreign.example.com"
	// otherFinalizer is the finalizer of another controller.
	otherFinalizer = "soak.example.com/guard"

	partKind   = "Part"
	boxKind    = "Box"
	widgetKind = "Widget"
)

// graphKinds are the kinds of drawn definitions. Objects of the last one may outlive their instance.
var graphKinds = []string{"Apple", "Plum", "Pear", "Fig"}

func isGraph(kind string) bool {
	for _, k := range graphKinds {
		if k == kind {
			return true
		}
	}
	return false
}

// objectKinds are the kinds whose objects are compared.
var objectKinds = append([]string{"ConfigMap", "Secret", widgetKind, partKind, boxKind}, graphKinds...)

func groupVersion(kind string) schema.GroupVersion {
	switch kind {
	case "ConfigMap", "Secret", "Namespace":
		return schema.GroupVersion{Version: "v1"}
	case widgetKind:
		return schema.GroupVersion{Group: foreign, Version: "v1alpha1"}
	case "ResourceGraphDefinition":
		return schema.GroupVersion{Group: "kro.run", Version: "v1alpha1"}
	case "CompositeResourceDefinition":
		return schema.GroupVersion{Group: "apiextensions.crossplane.io", Version: "v2"}
	case "Composition":
		return schema.GroupVersion{Group: "apiextensions.crossplane.io", Version: "v1"}
	case "CustomResourceDefinition":
		return schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}
	}
	return schema.GroupVersion{Group: group, Version: "v1alpha1"}
}

func resourceOf(kind string) schema.GroupVersionResource {
	plural := strings.ToLower(kind) + "s"
	if kind == boxKind {
		plural = "boxes"
	}
	return groupVersion(kind).WithResource(plural)
}

// newObject is an object with a key and further fields.
func newObject(k key, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: fields}
	o.SetGroupVersionKind(groupVersion(k.kind).WithKind(k.kind))
	o.SetNamespace(k.namespace)
	o.SetName(k.name)
	return o
}

// keyOf is the key of an object in the cluster.
func keyOf(o *unstructured.Unstructured) key {
	k := key{o.GetKind(), o.GetNamespace(), o.GetName()}
	if name := o.GetAnnotations()["crossplane.io/composition-resource-name"]; name != "" {
		k.name = o.GetLabels()["crossplane.io/composite"] + "#" + name
	}
	return k
}

// valueOf is the part of an object that the model knows.
func valueOf(o *unstructured.Unstructured) string {
	switch o.GetKind() {
	case "ConfigMap":
		value, _, _ := unstructured.NestedString(o.Object, "data", "value")
		return value
	case "Secret":
		encoded, _, _ := unstructured.NestedString(o.Object, "data", "value")
		value, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return err.Error()
		}
		return string(value)
	case widgetKind:
		value, _, _ := unstructured.NestedString(o.Object, "spec", "value")
		return value
	}
	value, _, _ := unstructured.NestedString(o.Object, "spec", "word")
	return value
}

// valuePatch changes what valueOf returns, as a merge patch.
func valuePatch(kind, value string) map[string]any {
	switch kind {
	case "ConfigMap":
		return map[string]any{"data": map[string]any{"value": value}}
	case "Secret":
		return map[string]any{"stringData": map[string]any{"value": value}}
	case widgetKind:
		return map[string]any{"spec": map[string]any{"value": value}}
	}
	return map[string]any{"spec": map[string]any{"word": value}}
}

// widgetCRD defines a kind that no controller serves.
func widgetCRD() *unstructured.Unstructured {
	return newObject(key{"CustomResourceDefinition", "", "widgets." + foreign}, map[string]any{"spec": map[string]any{
		"group": foreign, "scope": "Namespaced",
		"names": map[string]any{"kind": widgetKind, "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
		"versions": []any{map[string]any{
			"name": "v1alpha1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
				"spec": map[string]any{"type": "object", "properties": map[string]any{"value": map[string]any{"type": "string"}}},
			}}},
		}},
	}})
}
