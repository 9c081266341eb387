package inventory

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Metadata is on an instance before its first child is created, and as long as it has children: labels, annotations
// with the inventory, and a finalizer.
type Metadata struct {
	Labels      map[string]string
	Annotations map[string]string
	Finalizer   string
	// Fields are fields outside of the metadata that the dialect sets in the same write; the
	// graph dialect has none.
	Fields []Field
}

// Field is a field of an object, from its root, and its desired value in unstructured form; nil
// for none.
type Field struct {
	Path  []string
	Value any
}

// MetadataOf returns the metadata of the owner's instance for an inventory, and for its
// definition's settings for deletion.
func MetadataOf(o Owner, v Inventory, defaults Defaults) Metadata {
	m := Metadata{
		Labels: map[string]string{v1alpha1.ApplySetIDLabel: o.ID()},
		Annotations: map[string]string{
			v1alpha1.ApplySetKindsAnnotation:      v.kindsText(),
			v1alpha1.ApplySetNamespacesAnnotation: v.namespacesText(),
			v1alpha1.ApplySetHashAnnotation:       o.hashOf(v),
		},
		Finalizer: o.Definition.Finalizer(),
	}
	switch o.Definition.Dialect {
	case object.CompositeDialect:
		m.Labels[apiextensions.CompositeLabel] = o.TreeLabels[apiextensions.CompositeLabel]
		m.Annotations[v1alpha1.ApplySetToolingAnnotation] = "espalier/" + o.Version
	case object.ClaimDialect:
		m.Annotations[v1alpha1.ApplySetToolingAnnotation] = "espalier/" + o.Version
	case object.GraphDialect:
		m.Annotations[v1alpha1.ApplySetToolingAnnotation] = "kro/" + o.Version
		maps.Copy(m.Labels, map[string]string{v1alpha1.OwnedLabel: "true", v1alpha1.VersionLabel: o.Version})
		if o.Definition.IsGraph() {
			break
		}
		m.Labels[v1alpha1.DefinitionIDLabel] = string(o.Definition.UID)
		m.Labels[v1alpha1.DefinitionNameLabel] = object.LabelValue(o.Definition.Name)
		if o.Definition.Namespace != "" {
			m.Labels[v1alpha1.DefinitionNSLabel] = o.Definition.Namespace
		}
	}
	if text := defaults.text(); text != "" {
		m.Annotations[v1alpha1.DeletionDefaultsAnnotation] = text
	}
	return m
}

func (o Owner) hashOf(v Inventory) string {
	if o.Keys.IsZero() {
		return unkeyedHash(o.ID(), v.kindsText(), v.namespacesText())
	}
	return o.Keys.SignatureOfInventory(o.Key(), v.kindsText(), v.namespacesText())
}

// IsOn reports whether the instance has the metadata and fields already. Another version of this program alone is no
// reason to write.
func (m Metadata) IsOn(instance *unstructured.Unstructured) bool {
	if !slices.Contains(instance.GetFinalizers(), m.Finalizer) {
		return false
	}
	labels, annotations := instance.GetLabels(), instance.GetAnnotations()
	if annotations[v1alpha1.DeletionDefaultsAnnotation] != m.Annotations[v1alpha1.DeletionDefaultsAnnotation] {
		return false
	}
	for k, want := range m.Labels {
		if got, ok := labels[k]; k != v1alpha1.VersionLabel && (!ok || got != want) {
			return false
		}
	}
	for k, want := range m.Annotations {
		if got, ok := annotations[k]; k != v1alpha1.ApplySetToolingAnnotation && (!ok || got != want) {
			return false
		}
	}
	return !slices.ContainsFunc(m.Fields, func(f Field) bool { return !f.isOn(instance) })
}

func (f Field) isOn(instance *unstructured.Unstructured) bool {
	got, _, _ := unstructured.NestedFieldNoCopy(instance.Object, f.Path...)
	return equality.Semantic.DeepEqual(got, f.Value)
}

// Configuration is the metadata as a server-side apply configuration of the instance; it leaves out Fields. It contains
// the instance's UID, so a delayed write can't recreate an instance that is gone.
func (m Metadata) Configuration(instance *unstructured.Unstructured) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(instance.GroupVersionKind())
	u.SetName(instance.GetName())
	u.SetNamespace(instance.GetNamespace())
	u.SetUID(instance.GetUID())
	u.SetLabels(m.Labels)
	u.SetAnnotations(m.replacedAnnotations(instance))
	u.SetFinalizers([]string{m.Finalizer})
	return u
}

// MergePatch is the metadata and fields as a merge patch (RFC 7386) of the instance, with only
// what the instance lacks: a manager that patches a field to the value that it has already
// becomes its owner.
func (m Metadata) MergePatch(instance *unstructured.Unstructured) map[string]any {
	change := map[string]any{}
	metadata := map[string]any{
		"labels":      missing(m.Labels, instance.GetLabels()),
		"annotations": missing(m.replacedAnnotations(instance), instance.GetAnnotations()),
	}
	if !slices.Contains(instance.GetFinalizers(), m.Finalizer) {
		metadata["finalizers"] = append(slices.Clone(instance.GetFinalizers()), m.Finalizer)
	}
	change["metadata"] = metadata
	for _, f := range m.Fields {
		if !f.isOn(instance) {
			put(change, f.Path, f.Value)
		}
	}
	return change
}

// replacedAnnotations are the annotations. Settings for deletion that the instance has and the
// definition doesn't are emptied: another writer may have set them, and to leave them out would
// not remove them.
func (m Metadata) replacedAnnotations(instance *unstructured.Unstructured) map[string]string {
	const key = v1alpha1.DeletionDefaultsAnnotation
	if m.Annotations[key] != "" || instance.GetAnnotations()[key] == "" {
		return m.Annotations
	}
	out := maps.Clone(m.Annotations)
	out[key] = ""
	return out
}

func missing(wanted, has map[string]string) map[string]any {
	out := map[string]any{}
	for key, value := range wanted {
		if got, ok := has[key]; !ok || got != value {
			out[key] = value
		}
	}
	return out
}

func put(into map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		below, ok := into[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			into[name] = below
		}
		into = below
	}
	into[path[len(path)-1]] = value
}
