package instance

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/usage"
)

// Usages tells which objects are in use.
type Usages interface {
	// Ask returns the usages of objects, and why they can't be told, if they can't.
	// Whoever asks is woken when that changes, until it asks about others or is
	// forgotten.
	Ask(asker object.Key, about []object.Key) (map[object.Key][]usage.Use, *plan.Blind)
	Forget(asker object.Key)
}

// observeUses finds out who uses what is to go. It reports false while usages are being
// read for the first time: nothing is to go before they are known.
func (r *Reconciler) observeUses(v *visit, remains *plan.Remains, objects ...*unstructured.Unstructured) (known bool) {
	if r.Usages == nil {
		return true
	}
	keys := make([]object.Key, 0, len(objects))
	for _, o := range objects {
		keys = append(keys, object.KeyOf(o))
	}
	v.memory.asked = true
	uses, blind := r.Usages.Ask(v.key, keys)
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

// forgetUses ends the interest in who uses what, of an instance that nothing is to go of.
func (r *Reconciler) forgetUses(key object.Key, m *memory) {
	if r.Usages != nil && (m == nil || m.asked) {
		r.Usages.Forget(key)
	}
	if m != nil {
		m.asked = false
	}
}
