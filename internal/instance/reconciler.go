// Package instance reconciles instances, in all dialects alike: it records their inventories,
// watches, applies and prunes their children, reports their status and tears them down.
// See docs/design/0008-deletion.md.
//
// What an instance should consist of comes from its Composer, and the words of its conditions
// from its Dialect. The decisions are made in package plan, from values; this package gathers
// the facts and carries the decisions out, through the ports of ports.go. Read Reconcile first,
// then observe.go, act.go, prune.go, report.go and teardown.go.
package instance

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

// Reconciler serves the instances of one kind.
type Reconciler struct {
	Kind       schema.GroupVersionKind
	Definition object.Definition
	Dialect    Dialect
	// Cluster writes the instances and what they consist of. Children caches the latter, and
	// Lease opens a lease of it. All three use the rights of the instances' account.
	Cluster  Cluster
	Children ChildCache
	Lease    func(watch.Subscriber) Lease
	// Controllers uses the controllers' own permissions, for the account of a definition in a namespace; nil for other
	// definitions. See terminating_namespace.go.
	Controllers Controllers
	// Instances caches the instances themselves.
	Instances InstanceCache
	Kinds     Kinds
	Events    telemetry.Recorder
	Version   string
	// Keys prove which objects are children: see inventory.Owner.Owns.
	Keys inventory.Keys
	Now  func() time.Time
	// EnqueueDefinition enqueues the definition: a kind that it didn't know has appeared, or an instance
	// that it may wait for is gone.
	EnqueueDefinition func()
	// Usages returns the usages of objects; nil if there are none.
	Usages Usages
	// Readiness caches how each instance was after its last reconcile; it may be nil.
	Readiness *ReadinessCache
	// Limits bound each instance.
	Limits Limits
	// Layers measures how long values take from one layer of instances to the next; it may be
	// nil.
	Layers *telemetry.StatusPropagation
	// Decided is called with each plan before it is carried out, and with what it was computed from; optional.
	// It must not block, nor change either; the maps of the facts change once it has returned.
	Decided Decided

	composer atomic.Pointer[Composer]
	memories memories
}

// Decided receives what is decided for an instance.
type Decided func(instance object.Key, facts plan.Facts, p plan.Plan)

// SetComposer replaces the composer; reconciles in flight finish with the one that they began
// with.
func (r *Reconciler) SetComposer(c Composer) { r.composer.Store(&c) }

type reconcileState struct {
	key      object.Key
	instance *unstructured.Unstructured
	owner    inventory.Owner
	composer Composer
	lease    Lease
	memory   *memory

	// round counts the rounds of observing, deciding and acting, from 0.
	round int
	facts plan.Facts
	// observedKinds are the kinds whose children have been read in this round.
	observedKinds map[schema.GroupKind]bool
	// desiredNamespaces are the namespaces of desired objects, as far as the inventory had not recorded them when they
	// were first desired; see childNamespaces.
	desiredNamespaces map[string]struct{}
	// namespaceStates are the namespaces that were read in this reconcile.
	namespaceStates map[string]namespaceState
	// namespacesOf is the revision of the instance that the namespaces were last read from.
	namespacesOf *unstructured.Unstructured
	// unreadKinds are the kinds whose objects can't be read now.
	unreadKinds []schema.GroupKind
	// lookupErr is why a kind that was recorded can't be looked up.
	lookupErr error
	desired   plan.Desired
	plan      plan.Plan
	// inventoryProblem is why the inventory can't be written, if it can't.
	inventoryProblem plan.Problem
	// statusTooLarge says that the API server does not store the desired status.
	statusTooLarge bool
	// ignored names the annotations that the definition of an instance that is being deleted does
	// not allow.
	ignored string
	// recreating says that objects are to be recreated.
	recreating bool
	// pruning is what status.pruning says of objects that nothing wants and that aren't gone.
	pruning []report.Blocker
	// idleRounds counts the rounds that changed nothing.
	idleRounds int
	// requeueAfter and pruneAfter are when to reconcile again, the latter for pruning; 0 for no
	// time.
	requeueAfter, pruneAfter time.Duration
	// obstacleAfter is when to reconcile again for obstacles that cannot be watched; 0 for no time.
	obstacleAfter time.Duration
	// conflictAfter is when to reconcile again if no event shows why a write was stale; 0 if none was.
	conflictAfter time.Duration
	// errs are the errors of this reconcile for which a retry may succeed.
	errs []error
}

// Reconcile observes what is there, decides what to do and acts, for as long as the answers let
// more resolve; then it prunes what nothing wants any more, and reports. An instance that is
// being deleted takes a path of its own.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	if r.Keys.IsZero() {
		return reconcile.Fail(errors.New("without a signing key it isn't known which objects are the instance's"))
	}
	s, out := r.load(ctx, key)
	if out.IsFinal() {
		return out
	}
	if why := r.Dialect.Suspended(s.instance); why != "" {
		return r.reportSuspended(ctx, s, why)
	}
	if s.instance.GetDeletionTimestamp() != nil {
		return r.tearDown(ctx, s)
	}
	if out := r.chooseComposer(ctx, s); out.IsFinal() {
		return out
	}
	defer s.lease.Discard() // the watches of the last reconcile stay, unless it is committed
	rounds := s.composer.Depth() + 1 + extraRounds
	for s.round = range rounds {
		if err := r.observe(ctx, s); err != nil {
			return reconcile.Fail(err)
		}
		s.plan = plan.Compute(s.desired, s.facts, s.memory.history, s.owner, v1alpha1.ChildManager)
		s.memory.noteDecisions(s.plan, s.facts.Now)
		if r.Decided != nil {
			r.Decided(key, s.facts, s.plan)
		}
		if out := r.recordInventory(ctx, s); out.IsFinal() {
			return out
		}
		if changed := r.act(ctx, s); !changed && !s.recordIdleRound() {
			break
		}
		if s.round == rounds-1 {
			s.recordUnsettled()
		}
	}
	if out := s.awaitFirstLists(r.Now()); out.IsFinal() {
		return out
	}
	r.prune(ctx, s)
	return r.report(ctx, s)
}

// recordIdleRound records a round that has changed nothing, and reports whether another follows:
// the composer may give another answer in it.
func (s *reconcileState) recordIdleRound() (more bool) {
	s.idleRounds++
	switch {
	case !s.desired.Unsettled:
		s.requeueAfter, s.memory.unsettledReconciles = 0, 0
		return false
	case s.idleRounds < maxIdleRounds:
		return true
	}
	s.recordUnsettled()
	return false
}

// recordUnsettled records that the reconcile ends while another round would change more. A composer
// that answers something else each time, such as the current time, never settles: its rounds are
// bounded, and the delay to the next reconcile doubles.
func (s *reconcileState) recordUnsettled() {
	s.requeueAfter = time.Second << s.memory.unsettledReconciles
	s.memory.unsettledReconciles = min(s.memory.unsettledReconciles+1, maxUnsettledReconciles)
}

// extraRounds are rounds beyond what the nodes depend on, for changes by other clients during a reconcile: what the
// last round applies is reported as not ready.
const extraRounds = 3

// maxIdleRounds bounds the rounds of one reconcile that call a composer with a changed answer each time;
// maxUnsettledReconciles bounds how often the delay to the next reconcile doubles.
const (
	maxIdleRounds          = 4
	maxUnsettledReconciles = 6
)

// load reads the instance, and restores the watches of what it recorded. An instance that is gone
// is forgotten.
func (r *Reconciler) load(ctx context.Context, key object.Key) (*reconcileState, reconcile.Result) {
	cached, ok := r.Instances.GetCached(r.Kind, key.Namespace, key.Name)
	if !ok {
		if gone := r.deletedDespiteFinalizers(key); gone != nil {
			return nil, r.tearDownDeletedDespiteFinalizers(ctx, key, gone)
		}
		return nil, r.forget(key)
	}
	s := &reconcileState{
		key:      key,
		instance: cached,
		owner:    r.ownerOf(cached),
		memory:   r.memories.of(key, cached.GetUID()),
	}
	s.owner.Proved = s.memory.proved
	tracing.SetGeneration(ctx, cached.GetGeneration())
	r.restoreWatches(ctx, s)
	return s, reconcile.Result{}
}

func (r *Reconciler) ownerOf(instance *unstructured.Unstructured) inventory.Owner {
	owner, takenOver := inventory.OwnerOf(instance, r.Definition, r.Version), time.Time{}
	if crd, known := r.Kinds.CRD(r.Kind.GroupKind()); known {
		owner.CRD, takenOver = inventory.CRD{Name: crd.Name, UID: crd.UID}, inventory.TakenOver(crd.Annotations)
	}
	return owner.Recognizing(r.Keys, instance, takenOver)
}

func (r *Reconciler) chooseComposer(ctx context.Context, s *reconcileState) reconcile.Result {
	composer := r.composer.Load()
	if composer == nil {
		return reconcile.Done() // its definition says why; all instances are enqueued when it compiles
	}
	s.composer = r.withinDepth(Choose(*composer, s.instance), s.instance)
	traceRevision(ctx, *composer, s.instance)
	s.lease = r.openLease(s.key)
	s.facts.Waits = reportedWaits(s.instance)
	maps.Copy(s.facts.Waits, s.memory.waitingSince)
	return reconcile.Result{}
}
