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
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
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
	Cluster Cluster
	// Self writes the instances themselves, if that needs other rights; nil for Cluster.
	Self     Cluster
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
	// Contributes says that nodes may have contributions, which the status of the kind records.
	Contributes bool
	// Layers measures how long values take from one layer of instances to the next; it may be
	// nil.
	Layers *telemetry.StatusPropagation
	// Decided is called with each plan before it is carried out, and with what it was computed from; optional.
	// It must not block, nor change either.
	Decided Decided

	// Forgotten is called when nothing is remembered of an instance any more; optional.
	Forgotten func(object.Key)

	composer atomic.Pointer[Composer]
	memories memories
}

// Decided receives what is decided for an instance.
type Decided func(instance object.Key, facts plan.Facts, p plan.Plan)

func (r *Reconciler) self() Cluster {
	if r.Self != nil {
		return r.Self
	}
	return r.Cluster
}

// SetComposer replaces the composer; reconciles in flight finish with the one that they began
// with.
func (r *Reconciler) SetComposer(c Composer) { r.composer.Store(&c) }

// subject is the instance that is reconciled, and what all stages use. The stages return what they find; what only
// accumulates, the errors and the time of the next reconcile, is kept here.
type subject struct {
	key object.Key
	// instance is the instance as it was read or written last.
	instance *unstructured.Unstructured
	owner    inventory.Owner
	composer Composer
	lease    Lease
	memory   *memory
	// namespaces says where children are looked for.
	namespaces childNamespaces
	// released are recorded contributions that this reconcile has released.
	released []v1alpha1.Contribution
	// again is when to reconcile again unless an event comes first; 0 for no time.
	again time.Duration
	// errs are errors for which a retry may succeed.
	errs []error
}

// requeue requests another reconcile after a delay, or sooner; 0 requests none.
func (s *subject) requeue(after time.Duration) { s.again = soonest(s.again, after) }

func (s *subject) fail(err error) { s.errs = append(s.errs, err) }

// Reconcile observes what is there, decides what to do and acts, for as long as the answers let
// more resolve; then it prunes what nothing wants any more, and reports. An instance that is
// being deleted takes a path of its own.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	if r.Keys.IsZero() {
		return reconcile.Fail(errors.New("no signing key: cannot tell which objects belong to the instance"))
	}
	s, out := r.load(ctx, key)
	if out.IsFinal() {
		return out
	}
	if why := r.Dialect.Suspended(s.instance); why != "" {
		return r.reportSuspended(ctx, s, why)
	}
	if out := r.takeOver(ctx, s); out.IsFinal() {
		return out
	}
	if s.instance.GetDeletionTimestamp() != nil {
		return r.tearDown(ctx, s)
	}
	if out := r.chooseComposer(ctx, s); out.IsFinal() {
		return out
	}
	defer s.lease.Discard() // the watches of the last reconcile stay, unless it is committed
	last, out := r.settle(ctx, s)
	if out.IsFinal() {
		return out
	}
	if out := r.awaitFirstLists(s, last.facts); out.IsFinal() {
		return out
	}
	pruning := r.prune(ctx, s, last)
	return r.report(ctx, s, findings{round: r.releaseUnwanted(ctx, s, last), pruning: pruning})
}

// round is what one round has observed, decided and done.
type round struct {
	observation
	plan plan.Plan
	outcome
}

// settle observes, decides and acts in rounds, until nothing changes. It returns the last round. The result is final if
// the reconcile ends before its children are settled.
func (r *Reconciler) settle(ctx context.Context, s *subject) (last round, out reconcile.Result) {
	for n, idle := 0, 0; n <= s.composer.Depth()+extraRounds && idle < maxIdleRounds; n++ {
		if last, out = r.round(ctx, s, n, last); out.IsFinal() {
			return last, out
		}
		switch {
		case last.changed:
		case last.desired.Unsettled: // the composer may give another answer
			idle++
		default:
			s.memory.unsettledReconciles = 0
			return last, out
		}
	}
	if last.plan.Paced { // each round changes a batch of a collection
		s.requeue(time.Millisecond)
		return last, out
	}
	s.requeue(s.memory.noteUnsettled())
	return last, out
}

func (r *Reconciler) round(ctx context.Context, s *subject, n int, before round) (round, reconcile.Result) {
	seen, err := r.observe(ctx, s, n, before)
	if err != nil {
		return before, reconcile.Fail(err)
	}
	now := round{observation: seen, plan: plan.Compute(seen.desired, seen.facts, s.memory.history, s.owner, v1alpha1.ChildManager)}
	s.memory.noteDecisions(now.plan, seen.facts.Now)
	if r.Decided != nil {
		r.Decided(s.key, seen.facts, now.plan)
	}
	if out := r.recordInventory(ctx, s, now); out.IsFinal() {
		return now, out
	}
	if out := r.recordContributions(ctx, s, now); out.IsFinal() {
		return now, out
	}
	now.outcome = r.act(ctx, s, now)
	now.recreating = now.recreating || before.recreating
	return now, reconcile.Result{}
}

// noteUnsettled returns the delay to the next reconcile if another round would change more now. A composer that answers
// something else each time, such as the current time, never settles: its rounds are bounded, and the delay doubles.
func (m *memory) noteUnsettled() time.Duration {
	delay := time.Second << m.unsettledReconciles
	m.unsettledReconciles = min(m.unsettledReconciles+1, maxUnsettledReconciles)
	return delay
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
func (r *Reconciler) load(ctx context.Context, key object.Key) (*subject, reconcile.Result) {
	cached, ok := r.Instances.GetCached(r.Kind, key.Namespace, key.Name)
	if !ok {
		if gone := r.deletedDespiteFinalizers(key); gone != nil {
			return nil, r.tearDownDeletedDespiteFinalizers(ctx, key, gone)
		}
		return nil, r.forget(key)
	}
	s := &subject{
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

func (r *Reconciler) chooseComposer(ctx context.Context, s *subject) reconcile.Result {
	composer := r.composer.Load()
	if composer == nil {
		return reconcile.Done() // its definition says why; all instances are enqueued when it compiles
	}
	s.composer = r.withinDepth(Choose(*composer, s.instance), s.instance)
	traceRevision(ctx, *composer, s.instance)
	s.lease = r.openLease(s.key)
	return reconcile.Result{}
}
