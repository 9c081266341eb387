package archive

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/dag"
	"github.com/espalier-dev/espalier/internal/object"
)

// specOf decodes the spec of a ResourceGraphDefinition or ResourceGroup.
func specOf(o *unstructured.Unstructured) (*v1alpha1.DefinitionSpec, error) {
	var d v1alpha1.ResourceGraphDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
		return nil, fmt.Errorf("decode %s: %w", object.KeyOf(o), err)
	}
	return &d.Spec, nil
}

// Defines returns the kinds that a definition defines: one, or those of composites and claims.
// An invalid definition defines none.
func Defines(o *unstructured.Unstructured) []schema.GroupVersionKind {
	if o.GroupVersionKind().GroupKind() == compositeDefinitionKind {
		return compositeKinds(o)
	}
	s, _, _ := unstructured.NestedMap(o.Object, "spec", "schema")
	text := func(field, fallback string) string {
		if t, _ := s[field].(string); t != "" {
			return t
		}
		return fallback
	}
	gvk := schema.GroupVersionKind{Group: text("group", v1alpha1.GroupVersion.Group), Version: text("apiVersion", ""), Kind: text("kind", "")}
	if gvk.Kind == "" || gvk.Version == "" {
		return nil
	}
	return []schema.GroupVersionKind{gvk}
}

// compositeKinds returns the kinds that a CompositeResourceDefinition defines.
func compositeKinds(o *unstructured.Unstructured) []schema.GroupVersionKind {
	d, err := xrd.Read(o)
	if err != nil || d.Spec.Names.Kind == "" {
		return nil
	}
	out := []schema.GroupVersionKind{d.CompositeKind()}
	if claim, offered := d.ClaimKind(); offered {
		out = append(out, claim)
	}
	return out
}

// Defined returns the kinds that definitions define.
func Defined(definitions []*unstructured.Unstructured) map[schema.GroupKind]bool {
	out := map[schema.GroupKind]bool{}
	for _, d := range definitions {
		for _, gvk := range Defines(d) {
			out[gvk.GroupKind()] = true
		}
	}
	return out
}

// Order sorts definitions topologically, each after the definitions of the kinds that it
// composes, and by name otherwise. If they form a cycle, all are sorted by name: their kinds are
// served in any order.
func Order(definitions []*unstructured.Unstructured) []*unstructured.Unstructured {
	byName, definedBy := map[string]*unstructured.Unstructured{}, map[schema.GroupKind]string{}
	for _, d := range definitions {
		name := object.KeyOf(d).String()
		byName[name] = d
		for _, gvk := range Defines(d) {
			definedBy[gvk.GroupKind()] = name
		}
	}
	g := dag.New(slices.Collect(maps.Keys(byName))...)
	for name, d := range byName {
		for _, gvk := range usedKinds(d) {
			if other, ok := definedBy[gvk.GroupKind()]; ok && other != name {
				g.Connect(name, other)
			}
		}
	}
	layers, err := g.Layers()
	if err != nil {
		layers = [][]string{slices.Sorted(maps.Keys(byName))}
	}
	var out []*unstructured.Unstructured
	for _, name := range slices.Concat(layers...) {
		out = append(out, byName[name])
	}
	return out
}

// usedKinds returns the kinds that a definition composes; none if it cannot be decoded, or if it
// is a CompositeResourceDefinition, which has no resources.
func usedKinds(d *unstructured.Unstructured) []schema.GroupVersionKind {
	if d.GroupVersionKind().GroupKind() == compositeDefinitionKind {
		return nil
	}
	spec, err := specOf(d)
	if err != nil {
		return nil
	}
	return graph.UsedKinds(spec)
}

// Requires returns the kinds that definitions compose, and the known kinds of composed
// resources, without the kinds that the definitions define. The result is sorted.
func Requires(definitions []*unstructured.Unstructured, known ...schema.GroupVersionKind) []Kind {
	defined, seen := Defined(definitions), map[schema.GroupVersionKind]bool{}
	for _, d := range definitions {
		known = append(known, usedKinds(d)...)
	}
	for _, gvk := range known {
		if !defined[gvk.GroupKind()] {
			seen[gvk] = true
		}
	}
	var out []Kind
	for gvk := range seen {
		out = append(out, KindOf(gvk))
	}
	slices.SortFunc(out, func(a, b Kind) int {
		return cmp.Or(strings.Compare(a.APIVersion, b.APIVersion), strings.Compare(a.Kind, b.Kind))
	})
	return out
}

// MayUse reports whether managed resources that definitions compose may use a kind of configurations. What composites are
// composed of is for their functions to decide, so that these may use all of them.
func MayUse(definitions []*unstructured.Unstructured, config schema.GroupKind) bool {
	return slices.ContainsFunc(definitions, func(d *unstructured.Unstructured) bool {
		return d.GroupVersionKind().GroupKind() == compositeDefinitionKind ||
			slices.ContainsFunc(usedKinds(d), func(gvk schema.GroupVersionKind) bool { return Configures(config, gvk.Group) })
	})
}

// Composing returns the definitions that compose a kind, in their order.
func Composing(definitions []*unstructured.Unstructured, kind schema.GroupVersionKind) []object.Key {
	var out []object.Key
	for _, d := range definitions {
		if slices.Contains(usedKinds(d), kind) {
			out = append(out, object.KeyOf(d))
		}
	}
	return out
}

// WithDependencies returns the named definitions and, transitively, the definitions of the kinds
// that they compose. Those of composites are in composed. It also returns the names that no
// definition has.
func WithDependencies(definitions []*unstructured.Unstructured, names []string, composed Composed) (chosen []*unstructured.Unstructured, unknown []string) {
	by := map[schema.GroupKind][]*unstructured.Unstructured{}
	for _, d := range definitions {
		for _, gvk := range Defines(d) {
			by[gvk.GroupKind()] = append(by[gvk.GroupKind()], d)
		}
	}
	added := map[object.Key]bool{}
	var add func(d *unstructured.Unstructured)
	add = func(d *unstructured.Unstructured) {
		if added[object.KeyOf(d)] {
			return
		}
		added[object.KeyOf(d)] = true
		chosen = append(chosen, d)
		for _, gvk := range usedKinds(d) {
			for _, other := range by[gvk.GroupKind()] {
				add(other)
			}
		}
		for _, gvk := range Defines(d) {
			for gk := range composed[gvk.GroupKind()] {
				for _, other := range by[gk] {
					add(other)
				}
			}
		}
	}
	for _, name := range names {
		found := false
		for _, d := range definitions {
			if d.GetName() == name {
				found = true
				add(d)
			}
		}
		if !found {
			unknown = append(unknown, name)
		}
	}
	return chosen, unknown
}
