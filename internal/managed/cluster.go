package managed

// The interfaces to the API server and its caches. The interfaces to providers are in package port.

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
)

// Bindings reads and writes Bindings on the API server. *kube.Client implements it and
// documents the preconditions of each write.
type Bindings interface {
	Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	Create(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error)
	Replace(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error)
	Delete(ctx context.Context, o *unstructured.Unstructured) error
	DeleteIfUnchanged(ctx context.Context, o *unstructured.Unstructured) error
}

// Resources writes managed resources; *kube.Client does.
type Resources interface {
	writer.Cluster
	Patch(ctx context.Context, o *unstructured.Unstructured, change map[string]any, manager string) (*unstructured.Unstructured, error)
}

// Secrets applies connection secrets; *kube.Client does.
type Secrets interface {
	Create(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error)
	Update(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error)
}

// Cache holds the objects that are served, and records the answers to writes; *watch.Hub
// implements it.
type Cache interface {
	writer.Caches
	GetCached(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool)
	Forget(s watch.Subscriber)
	Write(writer watch.Subscriber, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error)
}

// Lease reads from caches. Once it is committed, a change of what was read enqueues its
// subscriber; *watch.Lease implements it.
type Lease interface {
	Reads
	Commit()
	Discard()
}

// Reads are the reading methods of a Lease.
type Reads interface {
	Watch(t watch.Target) watch.State
	Object(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State)
	Child(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State)
	Children(kind schema.GroupVersionKind, owner string) ([]*unstructured.Unstructured, watch.State)
	Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, watch.State)
}
