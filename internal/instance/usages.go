package instance

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

// Usages knows which objects are in use.
type Usages interface {
	// Subscribe returns the usages of objects, or why they can't be read. The subscriber is
	// enqueued when the answer changes, until it subscribes to other objects or is forgotten.
	Subscribe(subscriber object.Key, about []object.Key) (map[object.Key][]usage.Usage, *plan.Unreadable)
	Forget(subscriber object.Key)
}

// observeUsages adds the usages of objects that are to be deleted. It reports false while usages
// are being listed for the first time: nothing is deleted before they are known.
func (r *Reconciler) observeUsages(s *subject, remains *plan.Remaining, objects ...*unstructured.Unstructured) (known bool) {
	if r.Usages == nil {
		return true
	}
	keys := make([]object.Key, 0, len(objects))
	for _, o := range objects {
		keys = append(keys, object.KeyOf(o))
	}
	s.memory.usagesSubscribed = true
	uses, unreadable := r.Usages.Subscribe(s.key, keys)
	remains.Usages = uses
	switch {
	case unreadable == nil:
	case unreadable.Reason == plan.Syncing:
		if remains.Unreadable != nil {
			remains.Unreadable[usage.Kinds[0]] = *unreadable
		}
		return false
	default:
		remains.UsagesUnreadable = unreadable.Message
	}
	return true
}

func (r *Reconciler) forgetUsages(key object.Key, m *memory) {
	if r.Usages != nil && (m == nil || m.usagesSubscribed) {
		r.Usages.Forget(key)
	}
	if m != nil {
		m.usagesSubscribed = false
	}
}
