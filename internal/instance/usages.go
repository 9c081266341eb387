package instance

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

// Usages knows which objects are in use.
type Usages interface {
	// Ask returns the usages of objects, or why they can't be read. The asker is enqueued when
	// the answer changes, until it asks about others or is forgotten.
	Ask(asker object.Key, about []object.Key) (map[object.Key][]usage.Use, *plan.Unreadable)
	Forget(asker object.Key)
}

// observeUsages adds the usages of objects that are to be deleted. It reports false while usages
// are being listed for the first time: nothing is deleted before they are known.
func (r *Reconciler) observeUsages(s *reconcileState, remains *plan.Remaining, objects ...*unstructured.Unstructured) (known bool) {
	if r.Usages == nil {
		return true
	}
	keys := make([]object.Key, 0, len(objects))
	for _, o := range objects {
		keys = append(keys, object.KeyOf(o))
	}
	s.memory.askedUsages = true
	uses, blind := r.Usages.Ask(s.key, keys)
	remains.Uses = uses
	switch {
	case blind == nil:
	case blind.Reason == plan.Syncing:
		if remains.Unread != nil {
			remains.Unread[usage.Kinds[0]] = *blind
		}
		return false
	default:
		remains.UsesUnknown = blind.Message
	}
	return true
}

// forgetUsages ends the subscription of an instance of which nothing is to be deleted.
func (r *Reconciler) forgetUsages(key object.Key, m *memory) {
	if r.Usages != nil && (m == nil || m.askedUsages) {
		r.Usages.Forget(key)
	}
	if m != nil {
		m.askedUsages = false
	}
}
