package main

import (
	"fmt"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// composite is a kind of composites, with a composition of built-in functions.
type composite struct {
	prefix    string
	resources int
}

func (c *composite) objects() []*unstructured.Unstructured {
	text := map[string]any{"type": "object", "properties": map[string]any{"word": map[string]any{"type": "string"}, "value": map[string]any{"type": "string"}}}
	definition := newObject(key{"CompositeResourceDefinition", "", "boxes." + group}, map[string]any{"spec": map[string]any{
		"group": group, "scope": "Namespaced", "names": map[string]any{"kind": boxKind, "plural": "boxes"},
		"versions": []any{map[string]any{
			"name": "v1alpha1", "served": true, "referenceable": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": text, "status": text}}},
		}},
	}})
	return []*unstructured.Unstructured{definition, c.composition("FromCompositeFieldPath")}
}

// composition has ConfigMaps whose values are made by patches of a type.
func (c *composite) composition(patch string) *unstructured.Unstructured {
	var resources []any
	for n := range c.resources {
		resources = append(resources, map[string]any{
			"name": fmt.Sprintf("r%d", n),
			"base": map[string]any{"apiVersion": "v1", "kind": "ConfigMap"},
			"patches": []any{
				map[string]any{
					"type": patch, "fromFieldPath": "spec.word", "toFieldPath": "data.value",
					"transforms": []any{map[string]any{"type": "string", "string": map[string]any{"type": "Format", "fmt": c.prefix + "-%s"}}},
				},
				map[string]any{"type": "ToCompositeFieldPath", "fromFieldPath": "data.value", "toFieldPath": "status.value"},
			},
		})
	}
	return newObject(key{"Composition", "", "soak-box"}, map[string]any{"spec": map[string]any{
		"compositeTypeRef": map[string]any{"apiVersion": group + "/v1alpha1", "kind": boxKind}, "mode": "Pipeline",
		"pipeline": []any{
			map[string]any{"step": "render", "functionRef": map[string]any{"name": "function-patch-and-transform"}, "input": map[string]any{
				"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": resources,
			}},
			map[string]any{"step": "ready", "functionRef": map[string]any{"name": "function-auto-ready"}},
		},
	}})
}

func (c *composite) faulty(*rand.Rand) []*unstructured.Unstructured {
	return []*unstructured.Unstructured{c.composition("NoSuchPatch")}
}

func (c *composite) change(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		c.resources = 1 + r.IntN(4)
		return fmt.Sprintf("compose %d resources", c.resources)
	}
	c.prefix = fmt.Sprintf("c%d", r.IntN(1000))
	return "set the prefix to " + c.prefix
}

func (c *composite) compose(_ *model, i *instance, to map[key]wanted) map[string]string {
	value := c.prefix + "-" + i.word
	for n := range c.resources {
		to[key{"ConfigMap", i.namespace, fmt.Sprintf("%s#r%d", i.name, n)}] = wanted{value: value, owner: i.key}
	}
	return map[string]string{"value": value}
}
