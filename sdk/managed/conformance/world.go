package conformance

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
)

// world is what survives a process: what the API server holds, and calls that are on
// their way.
type world struct {
	bindings map[string]kept
	// gone are the managed resources that are not there any more, by UID.
	gone map[string]bool
	late []late
	// name sets its random texts apart from those of other worlds.
	name   string
	random int
}

// kept is a binding.
type kept struct {
	spec *binding.BindingSpec
	// reservation says that it only keeps an assigned identity.
	reservation bool
}

// late is a call that arrives after the process that made it has died.
type late struct {
	at     time.Time
	arrive func()
}

func (tr *trial) newWorld() *world {
	tr.worlds++
	return &world{bindings: map[string]kept{}, gone: map[string]bool{}, name: tr.prefix + strconv.Itoa(tr.worlds)}
}

// text is a random one, but for being the same each time.
func (w *world) text(of string) string {
	w.random++
	return fmt.Sprintf("%s-%s-%d", of, w.name, w.random)
}

// expire sees to bindings whose managed resources have gone, as the runtime does.
func (w *world) expire(now time.Time) {
	kept := map[string]bool{}
	for name, b := range w.bindings {
		if !w.gone[string(b.spec.Owner.UID)] || b.reservation {
			continue
		}
		kept[string(b.spec.Owner.UID)] = true
		switch step := operation.Expire(*b.spec, metav1.NewMicroTime(now)); step.Do {
		case operation.DeleteBinding:
			delete(w.bindings, name)
			delete(kept, string(b.spec.Owner.UID))
		case operation.UpdateBinding:
			b.spec = step.Binding
			w.bindings[name] = b
		default:
		}
	}
	for name, b := range w.bindings {
		if uid := string(b.spec.Owner.UID); b.reservation && w.gone[uid] && !kept[uid] {
			delete(w.bindings, name)
		}
	}
}
