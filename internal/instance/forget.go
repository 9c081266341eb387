package instance

import (
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Release drops what is remembered of an instance, and the watches of its children: another
// Reconciler reconciles it from now on. None of its reconciles may run.
func (r *Reconciler) Release(key object.Key) {
	r.forgetMemory(key)
	r.Children.Forget(watch.Subscriber{Key: key})
}

// Disown is Release for an instance that is gone, or that another installation of the controllers reconciles.
func (r *Reconciler) Disown(key object.Key) {
	if m := r.forgetMemory(key); m != nil {
		r.Layers.Forget(m.uid)
	}
	r.Release(key)
	r.Readiness.forget(key)
	r.forgetUsages(key, nil)
}

func (r *Reconciler) forgetMemory(key object.Key) *memory {
	if r.Forgotten != nil {
		r.Forgotten(key)
	}
	return r.memories.forget(key)
}

func (r *Reconciler) forget(key object.Key) reconcile.Result {
	r.Disown(key)
	r.EnqueueDefinition()
	return reconcile.Done()
}
