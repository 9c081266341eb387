// Package activation installs and serves the kinds of a provider's catalog that are activated, and
// removes those that are not activated any more once no object of them exists. Package plan decides
// what to do.
// See docs/design/0018-providers.md.
//
// All activations of a provider are reconciled together, under one key: several may activate the
// same kind. Nothing is polled: changes of activations, of CustomResourceDefinitions and, as far as
// kinds are activated on demand, of definitions bring the next reconcile.
package activation

import (
	"context"
	"maps"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/managed/activation/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/demand"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// FieldManager is the field manager of writes of activations.
const FieldManager = "espalier.dev/activation"

// Cluster reads and writes on the API server; *kube.Client does.
type Cluster interface {
	writer.Cluster
	Create(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error)
	Update(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error)
	DeleteIfUnchanged(ctx context.Context, o *unstructured.Unstructured) error
	List(ctx context.Context, gvk schema.GroupVersionKind, selector string) ([]unstructured.Unstructured, error)
}

// CRDs are the CustomResourceDefinitions of the cluster.
type CRDs interface {
	// ListCRDs returns those that match.
	ListCRDs(matches func(*apiextensionsv1.CustomResourceDefinition) bool) []*apiextensionsv1.CustomResourceDefinition
	// CRD returns the one of a kind.
	CRD(kind schema.GroupKind) (*apiextensionsv1.CustomResourceDefinition, bool)
}

// Cache holds the activations; *watch.Hub implements it.
type Cache interface {
	writer.Caches
	Forget(s watch.Subscriber)
}

// Lease reads from caches; *watch.Lease implements it.
type Lease interface {
	Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, watch.State)
	Object(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State)
	Commit()
}

// Reconciler reconciles the activations of one provider.
type Reconciler struct {
	// Provider is the provider's name, and Kind the kind of its activations.
	Provider string
	Kind     schema.GroupVersionKind
	Catalog  *Catalog
	Cluster  Cluster
	CRDs     CRDs
	// Written is called with the answer to each write of a CustomResourceDefinition.
	Written func(*apiextensionsv1.CustomResourceDefinition)
	Cache   Cache
	// Watch opens a lease on what a reconcile reads.
	Watch  func(watch.Subscriber) Lease
	Events telemetry.Recorder
	Now    func() time.Time
	// Enqueue requests a reconcile.
	Enqueue func(object.Key)
	// Serve starts the controller of a kind, and returns what stops it.
	Serve func(managed.Kind) (stop func())
	// Definitions are the kinds of definitions that may name kinds of the catalog.
	Definitions []schema.GroupVersionKind

	// The following are used by one reconcile at a time.
	served      map[plan.Key]func()
	failures    map[plan.Key]string
	definitions demand.Definitions
}

// Key is the key that all activations of a kind are reconciled under. It is no valid name, so no object has it.
func Key(kind schema.GroupVersionKind) object.Key {
	return object.Key{Group: kind.Group, Kind: kind.Kind, Name: noName}
}

// Follows makes an installation for some namespaces serve the activated kinds: another one writes.
func (r *Reconciler) Follows() {}

type reconcileState struct {
	lease       Lease
	activations map[string]*unstructured.Unstructured
	wanted      plan.Wanted
	plan        plan.Plan
}

// Reconcile reads what is stored, decides, writes CustomResourceDefinitions, starts and stops
// controllers, and writes the statuses of all activations.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	if all := Key(r.Kind); key != all {
		r.Enqueue(all)
		return reconcile.Done()
	}
	s := &reconcileState{lease: r.Watch(watch.Subscriber{Key: key})}
	defer s.lease.Commit()
	activations, ready := r.readActivations(s)
	if !ready {
		return reconcile.Done() // the watch enqueues it
	}
	if out := r.addFinalizers(ctx, s); out.IsFinal() {
		return out
	}
	installed := r.installed()
	s.wanted = plan.Want(activations, r.demand(s, activations), r.Catalog, installed)
	s.plan = plan.Compute(s.wanted, r.facts(s, installed))
	more, err := r.install(ctx, s)
	if err != nil || len(r.failures) > 0 {
		s.plan.Statuses = plan.Compute(s.wanted, r.facts(s, installed)).Statuses
	}
	started := r.serve(s)
	if out := r.report(ctx, s); out.IsFinal() {
		return out
	}
	switch {
	case err != nil:
		return reconcile.Fail(err)
	case more, started:
		r.Enqueue(key)
	}
	return reconcile.Done()
}

// ready reports whether they are known.
func (r *Reconciler) readActivations(s *reconcileState) (out []plan.Activation, ready bool) {
	found, state := s.lease.Matching(r.Kind, "", labels.Everything())
	if state.Phase != watch.Synced {
		return nil, false
	}
	s.activations = map[string]*unstructured.Unstructured{}
	for _, o := range found {
		s.activations[o.GetName()] = o
		out = append(out, readActivation(o))
	}
	return out, true
}

// It stops the controllers of kinds that are not served any more, and reports whether it has started any.
func (r *Reconciler) serve(s *reconcileState) (started bool) {
	if r.served == nil {
		r.served = map[plan.Key]func(){}
	}
	for _, key := range slices.Collect(maps.Keys(r.served)) {
		if !slices.Contains(s.plan.Serve, key) {
			r.served[key]()
			delete(r.served, key)
		}
	}
	for _, key := range s.plan.Serve {
		if r.served[key] != nil {
			continue
		}
		if kind := r.Catalog.opened(key); kind.err == nil {
			r.served[key] = r.Serve(kind.managed)
			started = true
		}
	}
	r.Catalog.forget(func(key plan.Key) bool { return r.served[key] != nil || s.wanted.Has(key) })
	return started
}
