// Package object identifies objects, fields and content. Keys, paths and digests are
// comparable values.
//
// Pure: it decides from values alone.
package object

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Key names an object independently of the API version and of its UID. It is comparable and
// serves as a map key.
type Key struct {
	Group     string
	Kind      string
	Namespace string // empty for cluster-scoped objects
	Name      string
}

// KeyOf returns the key of an object that has its kind set.
func KeyOf(o interface {
	metav1.Object
	GroupVersionKind() schema.GroupVersionKind
}) Key {
	gvk := o.GroupVersionKind()
	return Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// GroupKind returns the kind without a version.
func (k Key) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: k.Group, Kind: k.Kind}
}

// String describes the object: "Vpc prod/main", "Namespace prod".
func (k Key) String() string {
	var b strings.Builder
	b.WriteString(k.Kind)
	b.WriteByte(' ')
	if k.Namespace != "" {
		b.WriteString(k.Namespace)
		b.WriteByte('/')
	}
	b.WriteString(k.Name)
	return b.String()
}

// Compare orders keys by group, kind, namespace and name.
func (k Key) Compare(other Key) int {
	for _, pair := range [...][2]string{
		{k.Group, other.Group}, {k.Kind, other.Kind},
		{k.Namespace, other.Namespace}, {k.Name, other.Name},
	} {
		if c := strings.Compare(pair[0], pair[1]); c != 0 {
			return c
		}
	}
	return 0
}
