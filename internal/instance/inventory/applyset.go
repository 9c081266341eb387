package inventory

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Inventory is the set of kinds and namespaces where an instance may have children. It grows before an object is
// created, and shrinks only after objects are gone.
type Inventory struct {
	Kinds map[schema.GroupKind]struct{}
	// Namespaces does not include the instance's own.
	Namespaces map[string]struct{}
}

// Of returns an inventory of the given kinds and namespaces.
func Of(kinds []schema.GroupKind, namespaces ...string) Inventory {
	inv := Inventory{Kinds: map[schema.GroupKind]struct{}{}, Namespaces: map[string]struct{}{}}
	for _, k := range kinds {
		inv.Kinds[k] = struct{}{}
	}
	for _, n := range namespaces {
		inv.Namespaces[n] = struct{}{}
	}
	return inv
}

// Read returns the inventory that an instance's annotations record.
func Read(instance *unstructured.Unstructured) Inventory {
	inv := Of(nil)
	annotations := instance.GetAnnotations()
	for _, s := range splitList(annotations[v1alpha1.ApplySetKindsAnnotation]) {
		inv.Kinds[schema.ParseGroupKind(s)] = struct{}{}
	}
	for _, s := range splitList(annotations[v1alpha1.ApplySetNamespacesAnnotation]) {
		inv.Namespaces[s] = struct{}{}
	}
	return inv
}

// Separators are commas or spaces.
func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// Union returns the union of both.
func (v Inventory) Union(other Inventory) Inventory {
	out := Of(nil)
	for _, in := range []Inventory{v, other} {
		maps.Copy(out.Kinds, in.Kinds)
		maps.Copy(out.Namespaces, in.Namespaces)
	}
	return out
}

// Next is the inventory to record: it grows with the wanted one and shrinks to it only when settled, and never by a
// kind that can't be read now, because it may have objects.
func Next(recorded, wanted Inventory, unread []schema.GroupKind, settled bool) Inventory {
	if !settled {
		return wanted.Union(recorded)
	}
	next := wanted.Union(Of(nil))
	for _, gk := range unread {
		if _, ok := recorded.Kinds[gk]; ok {
			next.Kinds[gk] = struct{}{}
			maps.Copy(next.Namespaces, recorded.Namespaces)
		}
	}
	return next
}

// Contains reports whether v includes all of other.
func (v Inventory) Contains(other Inventory) bool {
	for k := range other.Kinds {
		if _, ok := v.Kinds[k]; !ok {
			return false
		}
	}
	for n := range other.Namespaces {
		if _, ok := v.Namespaces[n]; !ok {
			return false
		}
	}
	return true
}

// GroupKinds returns the kinds, sorted.
func (v Inventory) GroupKinds() []schema.GroupKind {
	return slices.SortedFunc(maps.Keys(v.Kinds), func(a, b schema.GroupKind) int {
		return strings.Compare(a.String(), b.String())
	})
}

func (v Inventory) kindsText() string {
	texts := make([]string, 0, len(v.Kinds))
	for k := range v.Kinds {
		texts = append(texts, k.String())
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

func (v Inventory) namespacesText() string {
	return strings.Join(slices.Sorted(maps.Keys(v.Namespaces)), ",")
}

// FormerFinalizers lists the dialect's finalizers on an instance other than the current one: the finalizers of former
// incarnations of its definition, by UID or by another name. A kind is served by one definition at a time, so no other
// controller waits for them.
func FormerFinalizers(instance *unstructured.Unstructured, current string) []string {
	var out []string
	for _, f := range instance.GetFinalizers() {
		if f != current && IsFinalizer(f) {
			out = append(out, f)
		}
	}
	return out
}

// IsFinalizer reports whether the finalizer is one that definitions put on their instances, of any incarnation or
// spelling.
func IsFinalizer(f string) bool {
	return f == v1alpha1.Finalizer || f == v1alpha1.GraphFinalizer || f == apiextensions.CompositeFinalizer || f == apiextensions.ClaimFinalizer || strings.HasSuffix(f, v1alpha1.FinalizerSuffix)
}
