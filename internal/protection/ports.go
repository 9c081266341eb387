package protection

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
)

// Writer writes usages, and marks what is used, each time under the conditions that
// *kube.Client documents.
type Writer interface {
	Patch(ctx context.Context, o *unstructured.Unstructured, change map[string]any, manager string) (*unstructured.Unstructured, error)
	Mark(ctx context.Context, o *unstructured.Unstructured, change map[string]any, manager string) (*unstructured.Unstructured, error)
	WriteStatus(ctx context.Context, o *unstructured.Unstructured, status map[string]any, manager string) (*unstructured.Unstructured, error)
	RemoveFinalizers(ctx context.Context, o *unstructured.Unstructured, finalizers []string, manager string) (*unstructured.Unstructured, error)
}

// Deleter deletes one incarnation of an object; *kube.Client does.
type Deleter interface {
	Delete(ctx context.Context, o *unstructured.Unstructured) error
	DeleteWith(ctx context.Context, o *unstructured.Unstructured, policy metav1.DeletionPropagation) error
}

// Kinds tells how kinds are served; *kube.Kinds does.
type Kinds interface {
	Resolve(ctx context.Context, gvk schema.GroupVersionKind) (kube.Resource, error)
	Availability(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, kube.Availability, error)
	CRDs
}

// Cache holds the usages, and takes the answers to writes; *watch.Hub is one.
type Cache interface {
	Served(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool)
	Forget(s watch.Subscriber)
	Write(o *unstructured.Unstructured, writer watch.Subscriber, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error)
	Releases
}

// Releases are the parts of Write for a write that may end an object.
type Releases interface {
	Writing(gvk schema.GroupVersionKind, namespace, name string, writer watch.Subscriber) (done func())
	Record(o *unstructured.Unstructured, writer watch.Subscriber)
	RecordGone(gvk schema.GroupVersionKind, namespace, name, uid string, writer watch.Subscriber)
}

// Lease reads from caches, and enqueues who holds it when what was read changes;
// *watch.Lease is one.
type Lease interface {
	Object(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State)
	Child(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State)
	Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, watch.State)
	Commit()
}
