package xrd

import "k8s.io/apimachinery/pkg/runtime/schema"

// ComposedRef refers to an object that a composite is composed of.
type ComposedRef struct {
	APIVersion string
	Kind       string
	// Namespace is empty for objects of a namespaced composite, which are in its own,
	// and for cluster-scoped ones.
	Namespace string
	// Name is empty while it isn't known.
	Name string
	// ResourceName is by which the pipeline knows the object.
	ResourceName string
	// DependsOn are the names, of the same kind, of what has to be there first.
	DependsOn []string
}

// GroupVersionKind is the kind that is referred to.
func (r ComposedRef) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
}

// ObjectRef refers to a claim, or to the composite of one. The latter has no namespace.
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

// SecretRef refers to the Secret with an object's connection details. Claims name none
// of another namespace, so theirs has no namespace.
type SecretRef struct {
	Namespace string
	Name      string
}
