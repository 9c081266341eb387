package protection

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
)

// Writer writes usages, and the label and annotation of used objects. *kube.Client implements
// it and documents the preconditions of each write.
type Writer interface {
	writer.Cluster
	Patch(ctx context.Context, o *unstructured.Unstructured, change map[string]any, manager string) (*unstructured.Unstructured, error)
	PatchMetadata(ctx context.Context, o *unstructured.Unstructured, change map[string]any, manager string) (*unstructured.Unstructured, error)
}

// Deleter deletes one incarnation of an object; *kube.Client does.
type Deleter interface {
	Delete(ctx context.Context, o *unstructured.Unstructured) error
	DeleteWithPolicy(ctx context.Context, o *unstructured.Unstructured, policy metav1.DeletionPropagation) error
}

// Refusals read the records of refused deletions; *RefusedDeletions implements it.
type Refusals interface {
	// Find returns the record of an object, nil if there is none.
	Find(ctx context.Context, key object.Key) (*RefusedDeletion, error)
	// Forget deletes a record. One that is gone is no error.
	Forget(ctx context.Context, r *RefusedDeletion) error
	// MayDelete reports whether the user who requested the deletion may delete the object now.
	MayDelete(ctx context.Context, r *RefusedDeletion, o *unstructured.Unstructured) (bool, error)
}

// Kinds finds how kinds are served; *kube.Kinds implements it.
type Kinds interface {
	Resolve(ctx context.Context, gvk schema.GroupVersionKind) (kube.Resource, error)
	Availability(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, kube.Availability, error)
	CRDs
}

// Cache holds the usages, and records the answers to writes; *watch.Hub implements it.
type Cache interface {
	GetCached(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool)
	// Refresh reads a watched object from the API server, and stores it.
	Refresh(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (found bool, err error)
	Forget(s watch.Subscriber)
	Write(writer watch.Subscriber, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error)
	writer.Caches
}

// Lease reads from caches. Once it is committed, a change of what was read enqueues its
// subscriber; *watch.Lease implements it.
type Lease interface {
	Object(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State)
	Child(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State)
	Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, watch.State)
	Commit()
}
