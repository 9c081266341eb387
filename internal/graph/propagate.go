package graph

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// allKeys is the entry of a propagation that stands for all keys, and after a prefix for all keys with it.
const allKeys = "*"

const propagatePath object.Path = "spec.propagate"

func checkPropagation(c *compilation) {
	if c.spec.Propagate == nil {
		return
	}
	c.graph.propagate = *c.spec.Propagate
	c.checkPropagatedKeys("labels", c.spec.Propagate.Labels)
	c.checkPropagatedKeys("annotations", c.spec.Propagate.Annotations)
}

func (c *compilation) checkPropagatedKeys(field string, keys []string) {
	for i, key := range keys {
		at := propagatePath.Field(field).Index(i)
		example := key
		if prefix, isPrefix := strings.CutSuffix(key, "/"+allKeys); isPrefix {
			example = prefix + "/any"
		}
		switch why := object.CheckMetadataKey(field, example); {
		case key == allKeys:
		case inventory.IsReserved(key, v1alpha1.ManagedByValue):
			c.problems.Addf(at, "%q is reserved for engines and kubectl: it never passes to children", key)
		case why != "":
			c.problems.Addf(at, "%q is neither a key nor %s nor a prefix with /%[2]s: %s", key, allKeys, why)
		}
	}
}

// propagatedKeys are by field of the metadata.
func (g *Graph) propagatedKeys() map[string][]string {
	return map[string][]string{"labels": g.propagate.Labels, "annotations": g.propagate.Annotations}
}

// entryOf returns -1 if no entry passes the label or annotation.
func entryOf(keys []string, key string, value any) int {
	if inventory.IsReserved(key, value) {
		return -1
	}
	return slices.IndexFunc(keys, func(entry string) bool {
		prefix, isPrefix := strings.CutSuffix(entry, allKeys)
		return entry == key || isPrefix && strings.HasPrefix(key, prefix)
	})
}

// propagated is by field of the metadata.
func (g *Graph) propagated(instance *unstructured.Unstructured) map[string]map[string]any {
	out := map[string]map[string]any{}
	for field, keys := range g.propagatedKeys() {
		if len(keys) == 0 {
			continue
		}
		entries, _, _ := unstructured.NestedMap(instance.Object, "metadata", field)
		maps.DeleteFunc(entries, func(key string, value any) bool { return entryOf(keys, key, value) < 0 })
		if len(entries) > 0 {
			out[field] = entries
		}
	}
	return out
}

// addPropagated adds the propagated labels and annotations to the metadata of a child, as far as its template does
// not set them.
func (c *composition) addPropagated(metadata map[string]any) {
	for field, entries := range c.propagated {
		own, isMap := metadata[field].(map[string]any)
		if metadata[field] != nil && !isMap {
			continue // the API server refuses the object
		}
		all := maps.Clone(entries)
		maps.Copy(all, own)
		metadata[field] = all
	}
}

// propagationOf returns the entry of the definition that passes a label or an annotation to an object.
func (g *Graph) propagationOf(live map[string]any, path []any) (Source, bool) {
	if len(path) != 3 || path[0] != "metadata" {
		return Source{}, false
	}
	field, _ := path[1].(string)
	key, _ := path[2].(string)
	value, _, _ := unstructured.NestedFieldNoCopy(live, "metadata", field, key)
	i := entryOf(g.propagatedKeys()[field], key, value)
	return Source{Path: propagatePath.Field(field).Index(i)}, i >= 0
}
