package inventory

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Owns says whether the object is one of the instance's children: by the label that
// the engine finds it by, or because it says so in the way of the composition dialect,
// whose other implementation has made it then.
func (o Owner) Owns(child *unstructured.Unstructured) bool {
	if set := child.GetLabels()[v1alpha1.ApplySetPartOfLabel]; set != "" {
		return set == o.ID()
	}
	switch o.Definition.Dialect {
	case object.CompositeDialect:
		return o.isControllerOf(child)
	case object.ClaimDialect: // of its Secret it is the controller
		key, _, claimed := ClaimedBy(child)
		return claimed && key == o.Key() || o.isControllerOf(child)
	case object.GraphDialect:
	}
	return false
}

func (o Owner) isControllerOf(child *unstructured.Unstructured) bool {
	ref := metav1.GetControllerOfNoCopy(child)
	return ref != nil && ref.UID == o.UID
}

// IsReleasedElsewhere says whether an instance that is being deleted was never the engine's
// own, and another implementation of its dialect has taken off the finalizer: what the
// instance refers to is left to the garbage collector, which takes it when the instance goes.
func IsReleasedElsewhere(instance *unstructured.Unstructured, d object.Definition) bool {
	return d.Dialect != object.GraphDialect && instance.GetDeletionTimestamp() != nil &&
		instance.GetLabels()[v1alpha1.ApplySetIDLabel] == "" && !slices.ContainsFunc(instance.GetFinalizers(), IsFinalizer)
}

// IsUnowned says whether nobody keeps the object, as far as it tells itself: it is in
// no ApplySet, has no controller and is nobody's composite.
func IsUnowned(o *unstructured.Unstructured) bool {
	if o.GetLabels()[v1alpha1.ApplySetPartOfLabel] != "" || o.GetLabels()[v1alpha1.OwnedLabel] != "" {
		return false
	}
	_, _, claimed := ClaimedBy(o)
	return !claimed && metav1.GetControllerOfNoCopy(o) == nil
}

// Whose names the owner of an object as its metadata tell it.
func Whose(o *unstructured.Unstructured) string {
	labels := o.GetLabels()
	if name := labels[v1alpha1.InstanceNameLabel]; name != "" {
		return object.Key{Kind: labels[v1alpha1.InstanceKindLabel], Namespace: labels[v1alpha1.InstanceNamespaceLabel], Name: name}.String()
	}
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.Kind + " " + ref.Name
	}
	if key, _, claimed := ClaimedBy(o); claimed {
		return key.String()
	}
	if by := labels[v1alpha1.ManagedByLabel]; by != "" {
		return by
	}
	if set := labels[v1alpha1.ApplySetPartOfLabel]; set != "" {
		return set
	}
	return "nobody here"
}

// InstanceOf names the instance that a child belongs to, in the version that made
// the child, as the child itself tells.
func InstanceOf(child *unstructured.Unstructured) (key object.Key, version string, ok bool) {
	set := child.GetLabels()[v1alpha1.ApplySetPartOfLabel]
	if set == "" {
		return object.Key{}, "", false
	}
	for _, told := range []func(*unstructured.Unstructured) (object.Key, string, bool){graphOf, ClaimedBy, controllerOf, clusterControllerOf} {
		if key, version, ok := told(child); ok && set == ApplySetID(key) {
			return key, version, true
		}
	}
	return object.Key{}, "", false
}

// graphOf is the instance that a child names in the way of the graph dialect.
func graphOf(child *unstructured.Unstructured) (key object.Key, version string, ok bool) {
	labels := child.GetLabels()
	key = object.Key{
		Group: labels[v1alpha1.InstanceGroupLabel], Kind: labels[v1alpha1.InstanceKindLabel],
		Namespace: labels[v1alpha1.InstanceNamespaceLabel], Name: labels[v1alpha1.InstanceNameLabel],
	}
	if full := child.GetAnnotations()[v1alpha1.InstanceNameAnnotation]; full != "" && object.LabelValue(full) == key.Name {
		key.Name = full
	}
	version = labels[v1alpha1.InstanceVersionLabel]
	return key, version, key.Name != "" && version != ""
}

// ClaimedBy is the claim that a composite says it belongs to, in the version that made it.
func ClaimedBy(composite *unstructured.Unstructured) (key object.Key, version string, ok bool) {
	ref, _, _ := unstructured.NestedStringMap(composite.Object, "spec", "claimRef")
	gvk := schema.FromAPIVersionAndKind(ref["apiVersion"], ref["kind"])
	key = object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: ref["namespace"], Name: ref["name"]}
	return key, gvk.Version, key.Kind != "" && key.Name != ""
}

// controllerOf is the controller of an object, if that is in the object's namespace.
func controllerOf(o *unstructured.Unstructured) (key object.Key, version string, ok bool) {
	key, version, ok = clusterControllerOf(o)
	key.Namespace = o.GetNamespace()
	return key, version, ok
}

// clusterControllerOf is the controller of an object, if that is in no namespace.
func clusterControllerOf(o *unstructured.Unstructured) (key object.Key, version string, ok bool) {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return object.Key{}, "", false
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	return object.Key{Group: gvk.Group, Kind: gvk.Kind, Name: ref.Name}, gvk.Version, true
}
