package serving

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/watch"
)

// Lister lists the objects of a kind that match a label selector from the API server; *kube.Client does.
type Lister interface {
	List(ctx context.Context, kind schema.GroupVersionKind, selector string) ([]unstructured.Unstructured, error)
}

// ReadSelected reads the instances that selectors match from the API server, into the cache, and reports whether
// there are any. The watch of instances can be behind the watch of definitions: a wave whose instances were labelled
// just before the definition changed would count as empty, and the next one begin at once.
func ReadSelected(ctx context.Context, l Lister, hub *watch.Hub, kind schema.GroupVersionKind, selectors []labels.Selector) (found bool, err error) {
	for _, selector := range selectors {
		live, err := l.List(ctx, kind, selector.String())
		if err != nil {
			return false, err
		}
		for i := range live {
			hub.Record(&live[i], watch.Subscriber{})
			found = true
		}
	}
	return found, nil
}
