package watch

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/kube/ownership"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// compactor makes the small copies of objects that the stores hold. Of the managed fields
// it keeps only what our own manager applied, and what tells the owner of an object, and
// shares these between siblings. It drops kubectl's last-applied annotation. Recurring
// names are stored once, as are owner references, which siblings have in common.
//
// Copies share data with each other, so they are read-only. It is safe for concurrent use.
type compactor struct {
	manager string
	// isForeignEntry says which entries of other managers are kept too; nil for none.
	isForeignEntry func(manager, operation, subresource string) bool
	// keepLastApplied keeps the last-applied annotation.
	keepLastApplied bool

	mu      sync.Mutex
	strings interner[string, string]
	managed interner[[sha256.Size]byte, []any]
	owners  interner[string, any]
}

// It does not modify o. The copy of a copy is equal to it.
func (c *compactor) compact(o *unstructured.Unstructured) *unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]any, len(o.Object))
	for key, value := range o.Object {
		switch key {
		case "apiVersion", "kind":
			out[c.intern(key)] = c.internAll(value)
		case "metadata":
			out[c.intern(key)] = c.metadata(value)
		default:
			out[c.intern(key)] = c.internKeys(value)
		}
	}
	return &unstructured.Unstructured{Object: out}
}

func (c *compactor) metadata(v any) any {
	in, ok := v.(map[string]any)
	if !ok {
		return c.internKeys(v)
	}
	out := make(map[string]any, len(in))
	for key, value := range in {
		switch key {
		case "managedFields":
			if own := c.ownEntries(value); own != nil {
				out[c.intern(key)] = own
			}
		case "annotations":
			if kept := c.annotations(value); kept != nil {
				out[c.intern(key)] = kept
			}
		case "ownerReferences":
			out[c.intern(key)] = c.references(value)
		case "labels", "namespace", "finalizers":
			out[c.intern(key)] = c.internAll(value)
		default:
			out[c.intern(key)] = c.internKeys(value)
		}
	}
	return out
}

// ownEntries returns the entries that our manager applied or that tell the owner, one copy for
// all objects with the same entries; nil if there are none. The times are left out, which
// would make every entry unique.
func (c *compactor) ownEntries(v any) any {
	entries, _ := v.([]any)
	var own []any
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if !c.isKeptEntry(entry) {
			continue
		}
		kept := make(map[string]any, len(entry))
		for key, value := range entry {
			if key != "time" {
				kept[c.intern(key)] = c.internAll(value)
			}
		}
		// Ownership of owner references names the instance, which would make each entry unique.
		ownership.RemoveField(kept, "metadata", "ownerReferences")
		own = append(own, kept)
	}
	if own == nil {
		return nil
	}
	raw, err := json.Marshal(own)
	if err != nil {
		return own
	}
	return c.managed.share(sha256.Sum256(raw), own)
}

func (c *compactor) isKeptEntry(entry map[string]any) bool {
	e := ownership.EntryOf(entry)
	if c.manager != "" && e.Manager == c.manager && e.Operation == metav1.ManagedFieldsOperationApply {
		return true
	}
	return c.isForeignEntry != nil && c.isForeignEntry(e.Manager, string(e.Operation), e.Subresource)
}

// There is one copy for all objects of the same owner.
func (c *compactor) references(v any) any {
	in, ok := v.([]any)
	if !ok {
		return c.internKeys(v)
	}
	out := make([]any, len(in))
	for i, ref := range in {
		raw, err := json.Marshal(ref)
		if err != nil {
			out[i] = c.internAll(ref)
			continue
		}
		out[i] = c.owners.share(string(raw), c.internAll(ref))
	}
	return out
}

func (c *compactor) annotations(v any) any {
	in, ok := v.(map[string]any)
	if !ok {
		return c.internKeys(v)
	}
	out := make(map[string]any, len(in))
	for key, value := range in {
		if key != lastApplied || c.keepLastApplied {
			out[c.intern(key)] = value
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (c *compactor) internKeys(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[c.intern(key)] = c.internKeys(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = c.internKeys(value)
		}
		return out
	default:
		return v
	}
}

// Values that many objects have in common are interned.
func (c *compactor) internAll(v any) any {
	switch v := v.(type) {
	case string:
		return c.intern(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[c.intern(key)] = c.internAll(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = c.internAll(value)
		}
		return out
	default:
		return v
	}
}

func (c *compactor) intern(s string) string { return c.strings.share(s, s) }
