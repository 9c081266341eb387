package usage

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// deepest bounds how far up it is looked whose part an object is.
const deepest = 16

// Reader reads an object; nil where there is none, or none can be told.
type Reader func(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured

// KinOf finds out how the two that a usage is about belong together, by what they and
// the instances above them carry.
func KinOf(of, by *unstructured.Unstructured, read Reader) Kin {
	switch {
	case of == nil || by == nil:
		return Apart
	case by.GetDeletionTimestamp() != nil && isPart(of, object.KeyOf(by), read):
		return UserAbove
	case isPart(by, object.KeyOf(of), read):
		return UserBelow
	}
	return Apart
}

// isPart says whether an object is a part of an instance, or of one that is.
func isPart(o *unstructured.Unstructured, of object.Key, read Reader) bool {
	for range deepest {
		key, version, ok := inventory.InstanceOf(o)
		if !ok {
			return false
		}
		if key == of {
			return true
		}
		if o = read(key.GroupKind().WithVersion(version), key.Namespace, key.Name); o == nil {
			return false
		}
	}
	return false
}

// Circular says whether a usage that is being deleted waits for itself: who uses it is
// kept by another that is being deleted, and so on, until one is kept for what this one
// is of. Of returns the usages of an object.
func Circular(u Use, of func(Ref) []Use) bool {
	if u.By == nil {
		return false
	}
	seen := map[Ref]bool{}
	var reaches func(Ref) bool
	reaches = func(r Ref) bool {
		if same(r, u.Of.Ref) {
			return true
		}
		if seen[r] {
			return false
		}
		seen[r] = true
		for _, other := range of(r) {
			if other.Deleting && other.Holds() && other.By != nil && reaches(other.By.Ref) {
				return true
			}
		}
		return false
	}
	return reaches(u.By.Ref)
}

func same(a, b Ref) bool {
	return a.Name == b.Name && a.Kind.GroupKind() == b.Kind.GroupKind() && a.Namespace == b.Namespace
}
