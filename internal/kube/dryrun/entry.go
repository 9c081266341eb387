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

// entry is an object that would be written. Its lock is held while a write is in flight.
type entry struct {
	key      key
	mu       sync.Mutex
	resource schema.GroupVersionResource
	// stored is the object as the server has it, and planned as it would be; nil for none.
	stored, planned *unstructured.Unstructured
	// written reports that a write was accepted. Without one the overlay does not show the entry.
	written bool
	// hasStatus reports that the status is a subresource.
	hasStatus bool
	// order is the revision of the first write that changed the object.
	order uint64

	shown sync.Mutex // guards seen
	seen  struct {
		now     *unstructured.Unstructured
		written bool
	}
}

// It does not wait for a write in flight. changed reports whether a write was accepted.
func (e *entry) snapshot() (now *unstructured.Unstructured, changed bool) {
	e.shown.Lock()
	defer e.shown.Unlock()
	return e.seen.now, e.seen.written
}

// setPlanned records what the object would be, and sends it to all watches. Resource versions are assigned in the order
// in which watches show them: a cache considers an unknown object deleted if it is older than what it has seen. The
// entry's lock is held.
func (o *Overlay) setPlanned(e *entry, now *unstructured.Unstructured) {
	last := e.planned
	if last == nil {
		last = e.stored
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	revision := o.revision.Add(1)
	if now != nil {
		now.SetResourceVersion(strconv.FormatUint(revision, 10))
	}
	if e.order == 0 {
		e.order = revision
	}
	e.planned, e.written = now, true
	e.shown.Lock()
	e.seen.now, e.seen.written = now, true
	e.shown.Unlock()
	for w := range o.watches {
		w.show(e.key, last, now)
	}
}

// isReplaced reports whether another object would be created under the name of the stored one, which would be deleted.
func (e *entry) isReplaced() bool {
	return e.stored != nil && e.planned != nil && e.stored.GetUID() != e.planned.GetUID()
}

// change returns what would become of the object, in its stored version; false if it would not change.
func (e *entry) change(converted func(schema.GroupResource, *unstructured.Unstructured, schema.GroupVersion) *unstructured.Unstructured) (Change, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.written || e.stored == nil && e.planned == nil {
		return Change{}, false
	}
	c := Change{Resource: e.resource, Before: e.stored, After: e.planned, Order: e.order}
	if e.planned != nil {
		c.After = e.planned.DeepCopy()
		if e.stored != nil {
			c.After = converted(e.resource.GroupResource(), c.After, e.stored.GroupVersionKind().GroupVersion())
			c.After.SetResourceVersion(e.stored.GetResourceVersion())
			if isSame(c.Before, c.After) {
				return Change{}, false
			}
		}
	}
	c.Deletion = e.stored != nil && e.stored.GetDeletionTimestamp() == nil && (e.planned == nil || e.planned.GetDeletionTimestamp() != nil)
	return c, true
}

// isSame reports whether two states of an object differ only in resource version and times of managed fields.
func isSame(a, b *unstructured.Unstructured) bool {
	return reflect.DeepEqual(withoutTimes(a), withoutTimes(b))
}

func withoutTimes(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "metadata", "resourceVersion")
	entries := o.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return slices.Compare([]string{a.Manager, string(a.Operation), a.Subresource, a.APIVersion},
			[]string{b.Manager, string(b.Operation), b.Subresource, b.APIVersion})
	})
	o.SetManagedFields(entries)
	return o.Object
}
