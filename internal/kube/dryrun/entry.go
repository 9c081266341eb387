package dryrun

import (
	"reflect"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// entry is an object that would be written. Its lock is held while one is under way.
type entry struct {
	key      key
	mu       sync.Mutex
	resource schema.GroupVersionResource
	// stored is the object as the server has it, and now as it would be; nil for none.
	stored, now *unstructured.Unstructured
	// written says that a write was accepted. Without one there is nothing to show.
	written bool
	// hasStatus says that the status is written apart from the rest.
	hasStatus bool

	shown sync.Mutex // guards seen
	seen  struct {
		now     *unstructured.Unstructured
		written bool
	}
}

// current is the object as it would be, and whether a write was accepted. It doesn't wait
// for one that is under way.
func (e *entry) current() (now *unstructured.Unstructured, changed bool) {
	e.shown.Lock()
	defer e.shown.Unlock()
	return e.seen.now, e.seen.written
}

// becomes notes what the object would be, and shows it to all watches. Versions are given in
// the order in which watches show them: caches take an object that is older than what they
// have seen, and that they don't have, for one that is gone. The entry's lock is held.
func (o *Overlay) becomes(e *entry, now *unstructured.Unstructured) {
	last := e.now
	if last == nil {
		last = e.stored
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now != nil {
		now.SetResourceVersion(strconv.FormatUint(o.revision.Add(1), 10))
	}
	e.now, e.written = now, true
	e.shown.Lock()
	e.seen.now, e.seen.written = now, true
	e.shown.Unlock()
	for w := range o.watches {
		w.show(e.key, last, now)
	}
}

// change is what would become of the object; none if it would be as it is.
func (e *entry) change() (Change, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.written || e.stored == nil && e.now == nil {
		return Change{}, false
	}
	c := Change{Resource: e.resource, Before: e.stored, After: e.now}
	if e.now != nil {
		c.After = e.now.DeepCopy()
		if e.stored != nil {
			c.After.SetResourceVersion(e.stored.GetResourceVersion())
			if isSame(c.Before, c.After) {
				return Change{}, false
			}
		}
	}
	c.Deletion = e.stored != nil && e.stored.GetDeletionTimestamp() == nil && (e.now == nil || e.now.GetDeletionTimestamp() != nil)
	return c, true
}

// isSame says whether two states of an object differ in nothing but when they were written.
func isSame(a, b *unstructured.Unstructured) bool {
	return reflect.DeepEqual(timeless(a), timeless(b))
}

func timeless(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "metadata", "resourceVersion")
	entries := o.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return slices.Compare([]string{a.Manager, string(a.Operation), a.Subresource, a.APIVersion}, []string{b.Manager, string(b.Operation), b.Subresource, b.APIVersion})
	})
	o.SetManagedFields(entries)
	return o.Object
}
