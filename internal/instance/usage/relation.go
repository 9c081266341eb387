package usage

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// maxDepth bounds how many levels of instances above an object are read.
const maxDepth = 16

// Reader reads an object; it returns nil if there is none or it can't be read.
type Reader func(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured

// InstanceOf is the instance that an object is a child of, with the version that created it; false if there is none.
// inventory.InstanceOf and inventory.Keys.InstanceOf are such functions.
type InstanceOf func(child *unstructured.Unstructured) (key object.Key, version string, ok bool)

// RelationOf determines how the used object and its user are related, by their metadata and the metadata of the
// instances above them. Either may be nil if it is unknown.
func RelationOf(of, by *unstructured.Unstructured, instanceOf InstanceOf, read Reader) Relation {
	switch {
	case of == nil || by == nil:
		return Unrelated
	case by.GetDeletionTimestamp() != nil && isPart(of, object.KeyOf(by), instanceOf, read):
		return UserIsAncestor
	case isPart(by, object.KeyOf(of), instanceOf, read):
		return UserIsDescendant
	}
	return Unrelated
}

// A child counts directly or through nested instances.
func isPart(o *unstructured.Unstructured, of object.Key, instanceOf InstanceOf, read Reader) bool {
	for range maxDepth {
		key, version, ok := instanceOf(o)
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

// IsCircular reports whether a usage that is being deleted waits for itself: a usage that is being deleted keeps its
// user, and so on, until one is kept for the object that this usage is of. Of returns the usages of an object.
func IsCircular(u Usage, of func(Ref) []Usage) bool {
	if u.By == nil {
		return false
	}
	seen := map[Ref]bool{}
	var reaches func(Ref) bool
	reaches = func(r Ref) bool {
		if sameObject(r, u.Of.Ref) {
			return true
		}
		if seen[r] {
			return false
		}
		seen[r] = true
		for _, other := range of(r) {
			if other.Deleting && other.Blocks() && other.By != nil && reaches(other.By.Ref) {
				return true
			}
		}
		return false
	}
	return reaches(u.By.Ref)
}

func sameObject(a, b Ref) bool {
	return a.Name == b.Name && a.Kind.GroupKind() == b.Kind.GroupKind() && a.Namespace == b.Namespace
}
