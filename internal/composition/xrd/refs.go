package xrd

import "k8s.io/apimachinery/pkg/runtime/schema"

// ComposedRef is a composite's reference to a composed object.
type ComposedRef struct {
	APIVersion string
	Kind       string
	// Namespace is empty for objects of a namespaced composite, which are in its namespace,
	// and for cluster-scoped objects.
	Namespace string
	// Name is empty while it isn't known.
	Name string
	// ResourceName is the object's name in the pipeline, or "".
	ResourceName string
	// DependsOn are the resource names of the objects that must exist first.
	DependsOn []string
}

// GroupVersionKind is the kind that is referred to.
func (r ComposedRef) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
}

// ObjectRef is a reference to a claim, or to a claim's composite. The latter has no
// namespace.
type ObjectRef struct {
	APIVersion string
	Kind       string
	Namespace  string
	Name       string
}

// GroupVersionKind is the kind that is referred to.
func (r ObjectRef) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
}

// SecretRef is a reference to the Secret with an object's connection details. A claim's has
// no namespace: the Secret is in the claim's namespace.
type SecretRef struct {
	Namespace string
	Name      string
}
