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

// compactor makes the small copies of objects that the stores keep: the managed fields
// are cut down to what our own manager applied, or is to get from those of former engines,
// and are shared between siblings; kubectl's copy of the object is dropped; and names that
// recur are stored once, as are references to owners, which siblings have in common.
//
// Copies share with each other, and so are read-only. It is safe for concurrent
// use.
type compactor struct {
	manager string
	// former says which entries of other managers are kept too; nil for none.
	former func(manager, operation, subresource string) bool
	// annotated keeps kubectl's copy.
	annotated bool

	mu      sync.Mutex
	strings interner[string, string]
	managed interner[[sha256.Size]byte, []any]
	owners  interner[string, any]
}

// compact returns a small copy of o, which it leaves alone. The copy of a copy
// is equal to it.
func (c *compactor) compact(o *unstructured.Unstructured) *unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]any, len(o.Object))
	for key, value := range o.Object {
		switch key {
		case "apiVersion", "kind":
			out[c.string(key)] = c.names(value)
		case "metadata":
			out[c.string(key)] = c.metadata(value)
		default:
			out[c.string(key)] = c.value(value)
		}
	}
	return &unstructured.Unstructured{Object: out}
}

func (c *compactor) metadata(v any) any {
	in, ok := v.(map[string]any)
	if !ok {
		return c.value(v)
	}
	out := make(map[string]any, len(in))
	for key, value := range in {
		switch key {
		case "managedFields":
			if own := c.own(value); own != nil {
				out[c.string(key)] = own
			}
		case "annotations":
			if kept := c.annotations(value); kept != nil {
				out[c.string(key)] = kept
			}
		case "ownerReferences":
			out[c.string(key)] = c.references(value)
		case "labels", "namespace", "finalizers":
			out[c.string(key)] = c.names(value)
		default:
			out[c.string(key)] = c.value(value)
		}
	}
	return out
}

// own returns the entries that our manager applied, or that are to become ours, one copy
// for all objects whose entries are the same; nil if there are none. When they were applied
// is left out: it would make every entry unique.
func (c *compactor) own(v any) any {
	entries, _ := v.([]any)
	var own []any
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if !c.keeps(entry) {
			continue
		}
		kept := make(map[string]any, len(entry))
		for key, value := range entry {
			if key != "time" {
				kept[c.string(key)] = c.names(value)
			}
		}
		// Who owns references to owners names an instance, and would make each entry unique.
		ownership.Forget(kept, "metadata", "ownerReferences")
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

func (c *compactor) keeps(entry map[string]any) bool {
	e := ownership.EntryOf(entry)
	if c.manager != "" && e.Manager == c.manager && e.Operation == metav1.ManagedFieldsOperationApply {
		return true
	}
	return c.former != nil && c.former(e.Manager, string(e.Operation), e.Subresource)
}

// references copies a list of references to owners, one copy for all objects that have the
// same owner.
func (c *compactor) references(v any) any {
	in, ok := v.([]any)
	if !ok {
		return c.value(v)
	}
	out := make([]any, len(in))
	for i, ref := range in {
		raw, err := json.Marshal(ref)
		if err != nil {
			out[i] = c.names(ref)
			continue
		}
		out[i] = c.owners.share(string(raw), c.names(ref))
	}
	return out
}

func (c *compactor) annotations(v any) any {
	in, ok := v.(map[string]any)
	if !ok {
		return c.value(v)
	}
	out := make(map[string]any, len(in))
	for key, value := range in {
		if key != lastApplied || c.annotated {
			out[c.string(key)] = value
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// value copies with its keys shared.
func (c *compactor) value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[c.string(key)] = c.value(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = c.value(value)
		}
		return out
	default:
		return v
	}
}

// names copies with keys and strings shared: for values that recur in many
// objects.
func (c *compactor) names(v any) any {
	switch v := v.(type) {
	case string:
		return c.string(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[c.string(key)] = c.names(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = c.names(value)
		}
		return out
	default:
		return v
	}
}

func (c *compactor) string(s string) string { return c.strings.share(s, s) }
