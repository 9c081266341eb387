package instance

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/inventory"
)

// wroteStatus notes that a status was written which an instance above may take up.
func (r *Reconciler) wroteStatus(v *visit) {
	if _, _, nested := inventory.InstanceOf(v.instance); nested {
		r.Layers.Wrote(v.instance.GetUID(), r.Now())
	}
}

// takeUp measures how long the status of the instances below was on its way, where this
// pass has seen a new one and its own status says something else since. One that it says
// nothing new of is not measured: nothing has gone up.
func (r *Reconciler) takeUp(v *visit, wrote bool) {
	var taken map[types.UID]string
	for _, children := range v.facts.Owned {
		for _, child := range children {
			if !inventory.IsInstance(child) {
				continue
			}
			uid, revision := child.GetUID(), child.GetResourceVersion()
			if taken == nil {
				taken = map[types.UID]string{}
			}
			taken[uid] = revision
			since, was := r.Layers.Taken(uid, v.facts.Now)
			if was && wrote && v.memory.taken[uid] != revision { // else a pass has, before the answer was there
				r.Layers.Observe(child.GroupVersionKind().GroupKind(), r.Kind.GroupKind(), r.Now().Sub(since))
			}
		}
	}
	v.memory.taken = taken
}
