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
	"github.com/espalier-dev/espalier/internal/dag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
)

// specOf reads a definition. Both spellings have the same spec.
func specOf(o *unstructured.Unstructured) (*v1alpha1.DefinitionSpec, error) {
	var d v1alpha1.ResourceGraphDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
		return nil, fmt.Errorf("%s can't be read: %w", object.KeyOf(o), err)
	}
	return &d.Spec, nil
}

// Defines are the kinds that a definition defines: one, or that of composites and that of
// their claims. None can be told of a definition that makes no sense.
func Defines(o *unstructured.Unstructured) []schema.GroupVersionKind {
	if o.GroupVersionKind().GroupKind() == compositeDefinitionKind {
		return composites(o)
	}
	s, _, _ := unstructured.NestedMap(o.Object, "spec", "schema")
	text := func(field, otherwise string) string {
		if t, _ := s[field].(string); t != "" {
			return t
		}
		return otherwise
	}
	gvk := schema.GroupVersionKind{Group: text("group", v1alpha1.GroupVersion.Group), Version: text("apiVersion", ""), Kind: text("kind", "")}
	if gvk.Kind == "" || gvk.Version == "" {
		return nil
	}
	return []schema.GroupVersionKind{gvk}
}

// composites are the kinds that a definition of the composition dialect defines.
func composites(o *unstructured.Unstructured) []schema.GroupVersionKind {
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

// Defined are the kinds that definitions define.
func Defined(definitions []*unstructured.Unstructured) map[schema.GroupKind]bool {
	out := map[schema.GroupKind]bool{}
	for _, d := range definitions {
		for _, gvk := range Defines(d) {
			out[gvk.GroupKind()] = true
		}
	}
	return out
}

// Order brings definitions into an order in which each goes after those whose kinds
// it composes; those of one rank are sorted. What composes itself in a circle can't
// be ordered, and is sorted by name: its kinds are served all the same.
func Order(definitions []*unstructured.Unstructured) []*unstructured.Unstructured {
	byName, by := map[string]*unstructured.Unstructured{}, map[schema.GroupKind]string{}
	for _, d := range definitions {
		name := object.KeyOf(d).String()
		byName[name] = d
		for _, gvk := range Defines(d) {
			by[gvk.GroupKind()] = name
		}
	}
	g := dag.New(slices.Collect(maps.Keys(byName))...)
	for name, d := range byName {
		for _, gvk := range uses(d) {
			if other, ok := by[gvk.GroupKind()]; ok && other != name {
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

// uses are the kinds that a definition composes; none if it can't be read. What composites
// are composed of, their definition doesn't say.
func uses(d *unstructured.Unstructured) []schema.GroupVersionKind {
	if d.GroupVersionKind().GroupKind() == compositeDefinitionKind {
		return nil
	}
	spec, err := specOf(d)
	if err != nil {
		return nil
	}
	return graph.UsedKinds(spec)
}

// Requires are the kinds that definitions compose, and those that composites are known to
// be composed of, as far as the definitions don't define them themselves; sorted.
func Requires(definitions []*unstructured.Unstructured, known ...schema.GroupVersionKind) []Kind {
	defined, seen := Defined(definitions), map[schema.GroupVersionKind]bool{}
	for _, d := range definitions {
		known = append(known, uses(d)...)
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

// Composing are the definitions that compose a kind, in their order.
func Composing(definitions []*unstructured.Unstructured, kind schema.GroupVersionKind) []object.Key {
	var out []object.Key
	for _, d := range definitions {
		if slices.Contains(uses(d), kind) {
			out = append(out, object.KeyOf(d))
		}
	}
	return out
}

// With are the named definitions and all those whose kinds they compose, however
// deep; of composites it has to be told what they are composed of. It returns the names
// that no definition has.
func With(definitions []*unstructured.Unstructured, names []string, composed Composed) (chosen []*unstructured.Unstructured, unknown []string) {
	by := map[schema.GroupKind][]*unstructured.Unstructured{}
	for _, d := range definitions {
		for _, gvk := range Defines(d) {
			by[gvk.GroupKind()] = append(by[gvk.GroupKind()], d)
		}
	}
	taken := map[object.Key]bool{}
	var take func(d *unstructured.Unstructured)
	take = func(d *unstructured.Unstructured) {
		if taken[object.KeyOf(d)] {
			return
		}
		taken[object.KeyOf(d)] = true
		chosen = append(chosen, d)
		for _, gvk := range uses(d) {
			for _, other := range by[gvk.GroupKind()] {
				take(other)
			}
		}
		for _, gvk := range Defines(d) {
			for gk := range composed[gvk.GroupKind()] {
				for _, other := range by[gk] {
					take(other)
				}
			}
		}
	}
	for _, name := range names {
		found := false
		for _, d := range definitions {
			if d.GetName() == name {
				found = true
				take(d)
			}
		}
		if !found {
			unknown = append(unknown, name)
		}
	}
	return chosen, unknown
}
