package instance

import (
	"context"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
)

// Cluster is the API server. A *kube.Client is one, and its comments are the contract: each
// write names its precondition, the UID or the revision that it was decided on, and package kube
// distinguishes its errors. A Conflict costs a read, and a creation or deletion is tried at most
// twice.
type Cluster interface {
	LiveReader
	Applier
	DryRunner
	InstanceWriter
	Remover
}

// LiveReader reads what caches don't have.
type LiveReader interface {
	Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	ListIn(ctx context.Context, kind schema.GroupVersionKind, namespace, selector string) ([]unstructured.Unstructured, error)
	WasOrphaned(ctx context.Context, o *unstructured.Unstructured) (bool, error)
}

// Applier applies objects. Create fails with kube.IsNameTaken where one of the name exists; the other methods write the
// incarnation with the given UID and nothing else.
type Applier interface {
	Create(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error)
	Update(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error)
	Contribute(ctx context.Context, o *unstructured.Unstructured, uid types.UID, as kube.Contributor) (*unstructured.Unstructured, error)
	UpdateWithoutForce(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error)
	ReplaceManagedFields(ctx context.Context, o *unstructured.Unstructured, manager string,
		compute func(live *unstructured.Unstructured) ([]metav1.ManagedFieldsEntry, bool)) (*unstructured.Unstructured, error)
}

// DryRunner makes writes in a dry run.
type DryRunner interface {
	DryRunUpdate(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error)
	DryRunCreate(ctx context.Context, o *unstructured.Unstructured, manager string) error
}

// InstanceWriter writes the instance itself. Where the revision that was read isn't the last
// any more, the error is one of kube.IsStale's and nothing is written.
type InstanceWriter interface {
	Patch(ctx context.Context, o *unstructured.Unstructured, change map[string]any, manager string) (*unstructured.Unstructured, error)
	SetFinalizers(ctx context.Context, o *unstructured.Unstructured, finalizers []string, manager string) (*unstructured.Unstructured, error)
	RemoveFinalizers(ctx context.Context, o *unstructured.Unstructured, finalizers []string, manager string) (*unstructured.Unstructured, error)
	WriteStatus(ctx context.Context, o *unstructured.Unstructured, status map[string]any, manager string) (*unstructured.Unstructured, error)
	// StatusRecheck returns when a status of the kind that was stored without some of its fields should be written again.
	StatusRecheck(kind schema.GroupVersionKind) time.Duration
}

// Remover deletes children, changes those that stay, and explains refusals. What is gone
// already is no error.
type Remover interface {
	// DeleteIfMetadataUnchanged reports whether the object is known to be gone.
	DeleteIfMetadataUnchanged(ctx context.Context, o *unstructured.Unstructured, policy metav1.DeletionPropagation) (gone bool, err error)
	PatchIfExists(ctx context.Context, o *unstructured.Unstructured, change map[string]any, manager string) error
	DiagnoseError(ctx context.Context, o *unstructured.Unstructured, verb string, err error) (kube.Reason, string)
}

// Kinds knows which kinds there are; a *kube.Kinds does.
type Kinds interface {
	KindStates
	KindDetails
}

// KindStates reports whether a kind is served, from what is known without a request where possible.
type KindStates interface {
	CRD(schema.GroupKind) (*apiextensionsv1.CustomResourceDefinition, bool)
	Availability(context.Context, schema.GroupKind) (schema.GroupVersionKind, kube.Availability, error)
	IsTerminating(schema.GroupKind) bool
}

// KindDetails says how a kind is served.
type KindDetails interface {
	Resolve(context.Context, schema.GroupVersionKind) (kube.Resource, error)
	Lookup(context.Context, schema.GroupVersionKind) (object.KindInfo, bool, error)
}

// Cache has writes show up in reads at once, without an event for the writer; a *watch.Hub is
// one.
type Cache interface {
	// Write makes one write, and records its answer.
	Write(writer watch.Subscriber, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error)
	Record(o *unstructured.Unstructured, writer watch.Subscriber)
}

// ChildCache caches what instances consist of and refer to.
type ChildCache interface {
	Cache
	writer.Caches
	// Forget ends a subscriber's watches.
	Forget(watch.Subscriber)
}

// InstanceCache caches the instances themselves.
type InstanceCache interface {
	Cache
	InstanceReader
	writer.Caches
}

// InstanceReader reads the instances, and what their watch knows of their deletion.
type InstanceReader interface {
	GetCached(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool)
	WasOrphaned(kind schema.GroupVersionKind, o *unstructured.Unstructured) (orphaned, known bool)
	// DeletedDespiteFinalizers is the last state of an instance that the API server deleted although it had
	// finalizers; nil if there is none.
	DeletedDespiteFinalizers(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured
	ForgetDeletedDespiteFinalizers(kind schema.GroupVersionKind, namespace, name string)
}

// Lease is what one reconcile reads from the ChildCache. What it has read stays watched once
// it is committed; one that is discarded leaves the watches of the last reconcile.
type Lease interface {
	CacheReader
	Commit()
	Discard()
}

// CacheReader reads from a cache, and watches what it reads. While the state is Synced, what
// isn't among the objects doesn't exist.
type CacheReader interface {
	Watch(watch.Target) watch.State
	Children(kind schema.GroupVersionKind, owner string) ([]*unstructured.Unstructured, watch.State)
	// ChildrenIn is Children in some namespaces; it needs no permission in other namespaces.
	ChildrenIn(kind schema.GroupVersionKind, namespaces []string, owner string) ([]*unstructured.Unstructured, watch.State)
	Object(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State)
	// OwnObject reads an object that the instance consists of, and that lacks the engine's labels.
	OwnObject(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State)
	Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, watch.State)
}

// Leases opens leases of a hub, within its quota.
func Leases(hub *watch.Hub) func(watch.Subscriber) Lease {
	return func(s watch.Subscriber) Lease { return hub.BeginWithinQuota(s) }
}
