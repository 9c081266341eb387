package inventory

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Inventory is where an instance's children are to be looked for. It only grows
// before something is made, and only shrinks after something is gone.
type Inventory struct {
	Kinds map[schema.GroupKind]struct{}
	// Namespaces are those beside the instance's own.
	Namespaces map[string]struct{}
}

// Of makes an inventory of the given kinds and namespaces.
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

// Read returns the inventory that an instance carries.
func Read(instance *unstructured.Unstructured) Inventory {
	inv := Of(nil)
	annotations := instance.GetAnnotations()
	for _, s := range fields(annotations[v1alpha1.ApplySetKindsAnnotation]) {
		inv.Kinds[schema.ParseGroupKind(s)] = struct{}{}
	}
	for _, s := range fields(annotations[v1alpha1.ApplySetNamespacesAnnotation]) {
		inv.Namespaces[s] = struct{}{}
	}
	return inv
}

func fields(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// Intact says whether what an instance carries is the inventory that was recorded,
// and nobody has changed it since. One that carries no claim has recorded none.
func Intact(instance *unstructured.Unstructured, owner Owner) bool {
	if !slices.ContainsFunc(instance.GetFinalizers(), IsFinalizer) && instance.GetLabels()[v1alpha1.ApplySetIDLabel] == "" {
		return true
	}
	annotations := instance.GetAnnotations()
	return annotations[v1alpha1.ApplySetHashAnnotation] ==
		signature(owner.ID(), annotations[v1alpha1.ApplySetKindsAnnotation], annotations[v1alpha1.ApplySetNamespacesAnnotation])
}

func signature(id, kinds, namespaces string) string {
	return object.Digest([]string{id, kinds, namespaces})
}

// Grow returns the union of both.
func (v Inventory) Grow(other Inventory) Inventory {
	out := Of(nil)
	for _, in := range []Inventory{v, other} {
		maps.Copy(out.Kinds, in.Kinds)
		maps.Copy(out.Namespaces, in.Namespaces)
	}
	return out
}

// Next is the inventory to record: it grows with what is wanted, and shrinks to it
// only once everything has settled, and never by a kind that can't be read now:
// its objects may be there.
func Next(recorded, wanted Inventory, unread []schema.GroupKind, settled bool) Inventory {
	if !settled {
		return wanted.Grow(recorded)
	}
	next := wanted.Grow(Of(nil))
	for _, gk := range unread {
		if _, ok := recorded.Kinds[gk]; ok {
			next.Kinds[gk] = struct{}{}
			maps.Copy(next.Namespaces, recorded.Namespaces)
		}
	}
	return next
}

// Contains says whether everything of other is in v.
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

// Claim is what an instance carries while its children exist.
type Claim struct {
	Labels      map[string]string
	Annotations map[string]string
	Finalizer   string
}

// ClaimOf says what the owner's instance is to carry for an inventory, and for
// what its definition says of its deletion.
func ClaimOf(o Owner, v Inventory, defaults Defaults) Claim {
	c := Claim{
		Labels: map[string]string{
			v1alpha1.OwnedLabel:          "true",
			v1alpha1.VersionLabel:        o.Version,
			v1alpha1.DefinitionIDLabel:   string(o.Definition.UID),
			v1alpha1.DefinitionNameLabel: LabelValue(o.Definition.Name),
			v1alpha1.ApplySetIDLabel:     o.ID(),
		},
		Annotations: map[string]string{
			v1alpha1.ApplySetToolingAnnotation:    "kro/" + o.Version,
			v1alpha1.ApplySetKindsAnnotation:      v.kindsText(),
			v1alpha1.ApplySetNamespacesAnnotation: v.namespacesText(),
			v1alpha1.ApplySetHashAnnotation:       signature(o.ID(), v.kindsText(), v.namespacesText()),
		},
		Finalizer: o.Definition.Finalizer(),
	}
	if text := defaults.text(); text != "" {
		c.Annotations[v1alpha1.DeletionDefaultsAnnotation] = text
	}
	if o.Definition.Namespace != "" {
		c.Labels[v1alpha1.DefinitionNSLabel] = o.Definition.Namespace
	}
	return c
}

// In says whether the instance carries the claim already. A different version
// of this program alone is no reason to write.
func (c Claim) In(instance *unstructured.Unstructured) bool {
	if !slices.Contains(instance.GetFinalizers(), c.Finalizer) {
		return false
	}
	labels, annotations := instance.GetLabels(), instance.GetAnnotations()
	if annotations[v1alpha1.DeletionDefaultsAnnotation] != c.Annotations[v1alpha1.DeletionDefaultsAnnotation] {
		return false
	}
	for k, want := range c.Labels {
		if got, ok := labels[k]; k != v1alpha1.VersionLabel && (!ok || got != want) {
			return false
		}
	}
	for k, want := range c.Annotations {
		if got, ok := annotations[k]; k != v1alpha1.ApplySetToolingAnnotation && (!ok || got != want) {
			return false
		}
	}
	return true
}

// Configuration is the claim as a server-side apply configuration. It carries
// the instance's UID, so that a late write can't bring back an instance that is
// gone.
func (c Claim) Configuration(instance *unstructured.Unstructured) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(instance.GroupVersionKind())
	u.SetName(instance.GetName())
	u.SetNamespace(instance.GetNamespace())
	u.SetUID(instance.GetUID())
	u.SetLabels(c.Labels)
	u.SetAnnotations(c.Annotations)
	u.SetFinalizers([]string{c.Finalizer})
	return u
}

var uidFinalizer = regexp.MustCompile(`^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}` + regexp.QuoteMeta(v1alpha1.FinalizerSuffix) + `$`)

// Retired lists the dialect's finalizers that an instance carries beside the
// current one: those of former incarnations of its definition, by UID or by
// another name. A kind is served by one definition at a time, so nobody else
// waits for them.
func Retired(instance *unstructured.Unstructured, current string) []string {
	var out []string
	for _, f := range instance.GetFinalizers() {
		if f != current && IsFinalizer(f) {
			out = append(out, f)
		}
	}
	return out
}

// IsFinalizer says whether the finalizer is one that instances carry for their
// definition, in whatever incarnation or spelling.
func IsFinalizer(f string) bool {
	return f == v1alpha1.Finalizer || uidFinalizer.MatchString(f) || strings.HasSuffix(f, v1alpha1.FinalizerSuffix)
}
