package instance

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// An instance of a higher layer may read the status.
func (r *Reconciler) startPropagation(s *subject) {
	if _, _, nested := inventory.InstanceOf(s.instance); nested {
		r.Layers.RecordWrite(s.instance.GetUID(), r.Now())
	}
}

// It measures the time from the status writes of nested instances to this instance's own, where this reconcile has
// observed a new status and has written its own. Where it has written none, no value has propagated, and nothing is
// measured.
func (r *Reconciler) measurePropagation(s *subject, facts plan.Facts, wrote bool) {
	var revisions map[types.UID]string
	for _, children := range facts.Owned {
		for _, child := range children {
			if !inventory.IsInstance(child) {
				continue
			}
			uid, revision := child.GetUID(), child.GetResourceVersion()
			if revisions == nil {
				revisions = map[types.UID]string{}
			}
			revisions[uid] = revision
			since, wasRead := r.Layers.RecordRead(uid, facts.Now)
			if wasRead && wrote && s.memory.childRevisions[uid] != revision { // else an earlier reconcile has observed it, before the answer was there
				r.Layers.Observe(child.GroupVersionKind().GroupKind(), r.Kind.GroupKind(), r.Now().Sub(since))
			}
		}
	}
	s.memory.childRevisions = revisions
}
