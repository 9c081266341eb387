package instance

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/watch"
)

// write makes one write. Its answer is in the caches when it returns, and its
// echo doesn't wake the instance; what others change at the same time does.
func (r *Reconciler) write(v *visit, o *unstructured.Unstructured, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	hub := r.World
	if o.GroupVersionKind() == r.Kind {
		hub = r.Hub
	}
	return hub.Write(o, watch.Subscriber{Key: v.key}, do)
}
