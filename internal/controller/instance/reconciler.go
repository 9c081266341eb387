// Package instance keeps instances true. What an instance wants is a Composer's
// to say; everything else (claiming, watching, applying, pruning, reporting,
// taking apart) is the same for all dialects and told here.
package instance

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
)

// Reconciler serves the instances of one kind.
type Reconciler struct {
	Kind       schema.GroupVersionKind
	Definition inventory.Definition
	Dialect    Dialect
	// Cluster writes the instances and what they consist of, and World watches the
	// latter: both by whose rights the instances are looked after.
	Cluster *cluster.Client
	World   *watch.Hub
	Kinds   *cluster.Kinds
	// Hub is where the instances themselves are watched.
	Hub     *watch.Hub
	Events  telemetry.Recorder
	Version string
	Now     func() time.Time
	// Wake asks for a pass over the definition: a kind that it didn't know has
	// appeared, or an instance that it may wait for is gone.
	Wake func()
	// Usages tells which objects are in use; nil if nobody knows of any.
	Usages Usages
	// Standings are told how each instance stands after a pass; nil if nobody asks.
	Standings *Standings
	// Layers measures how long values take upwards; nil if nobody wants to know.
	Layers *telemetry.Layers

	composer atomic.Pointer[Composer]
	memories memories
}

// SetComposer puts a new composer in place; passes in flight finish with the
// one they began with.
func (r *Reconciler) SetComposer(c Composer) { r.composer.Store(&c) }

// visit is one pass over one instance.
type visit struct {
	key      object.Key
	instance *unstructured.Unstructured
	owner    inventory.Owner
	composer Composer
	lease    *watch.Lease
	memory   *memory

	// turn counts the rounds of observing, deciding and acting, from 0.
	turn  int
	facts plan.Facts
	// looked are the kinds whose children have been looked at in this turn.
	looked map[schema.GroupKind]bool
	// unread are the kinds whose objects can't be told now.
	unread []schema.GroupKind
	// lookup is why a former kind couldn't even be looked up.
	lookup  error
	desired plan.Desired
	plan    plan.Plan
	// claiming is why the instance can't be claimed, if it can't.
	claiming plan.Problem
	// recreates says that objects are to be created anew, which may be in use.
	recreates bool
	// pruning is what to tell of objects that nothing wants and that aren't gone.
	pruning []report.Blocker
	// idle counts the turns of which nothing came but another answer.
	idle int
	// again asks for another pass after so long, and retry, for pruning.
	again, retry time.Duration
	// failures are requests of this pass that failed and may work when repeated.
	failures []error
}

// Reconcile tells one pass: observe what is there, decide what to do, act, as
// long as answers let more resolve; then prune what nothing wants any more, and
// report. Deletion is a story of its own.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) outcome.Outcome {
	v, out := r.begin(ctx, key)
	if out.Settled() {
		return out
	}
	if why := r.Dialect.Resting(v.instance); why != "" {
		return r.rest(ctx, v, why)
	}
	if v.instance.GetDeletionTimestamp() != nil {
		return r.takeApart(ctx, v)
	}
	if out := r.compose(v); out.Settled() {
		return out
	}
	defer v.lease.Discard() // keeps the previous lease, unless this one is committed
	v.again = time.Second   // unless the last turn has nothing more to do
	for v.turn = range v.composer.Depth() + 1 {
		if err := r.observe(ctx, v); err != nil {
			return outcome.Fail(err)
		}
		v.plan = plan.Compute(v.desired, v.facts, v.memory.history, v.owner, v1alpha1.ChildManager)
		v.memory.noteContests(v.plan, v.facts.Now)
		if out := r.claim(ctx, v); out.Settled() {
			return out
		}
		if changed := r.act(ctx, v); !changed && !v.unsettled() {
			break
		}
	}
	if out := v.patience(r.Now()); out.Settled() {
		return out
	}
	r.prune(ctx, v)
	return r.report(ctx, v)
}

// unsettled says, after a turn that has changed nothing, whether another may have another
// answer. One that is another each time isn't asked for without end: the next pass for it
// comes later and later.
func (v *visit) unsettled() bool {
	v.idle++
	switch {
	case !v.desired.Unsettled:
		v.again, v.memory.restless = 0, 0
		return false
	case v.idle < mostIdle:
		return true
	}
	v.again = time.Second << v.memory.restless
	v.memory.restless = min(v.memory.restless+1, mostRestless)
	return false
}

// How often an answer that is another each time is asked for in a pass, and how many
// such passes double the time to the next.
const (
	mostIdle     = 4
	mostRestless = 6
)

// begin loads the instance, and sees to it that what it recorded is watched. One
// that is gone is forgotten.
func (r *Reconciler) begin(ctx context.Context, key object.Key) (*visit, outcome.Outcome) {
	cached, ok := r.Hub.Served(r.Kind, key.Namespace, key.Name)
	if !ok {
		if gone := r.bypassed(key); gone != nil {
			return nil, r.clear(ctx, key, gone)
		}
		return nil, r.forget(key)
	}
	v := &visit{
		key:      key,
		instance: cached,
		owner:    inventory.OwnerOf(cached, r.Definition, r.Version),
		memory:   r.memories.of(key, cached.GetUID()),
	}
	if crd, known := r.Kinds.CRD(r.Kind.GroupKind()); known {
		v.owner.Anchor = inventory.Anchor{Name: crd.Name, UID: crd.UID}
	}
	r.rewatch(ctx, v)
	return v, outcome.Outcome{}
}

// compose takes the composer that there is now, and opens the lease.
func (r *Reconciler) compose(v *visit) outcome.Outcome {
	composer := r.composer.Load()
	if composer == nil {
		return outcome.Done() // its definition says why; the kind is woken when it compiles
	}
	v.composer = Choose(*composer, v.instance)
	if v.memory.composer != v.composer {
		v.memory.composer, v.memory.cut, v.memory.wrote = v.composer, 0, ""
	}
	v.lease = r.World.Begin(watch.Subscriber{Key: v.key})
	v.facts.Waits = waitsSince(v.instance)
	maps.Copy(v.facts.Waits, v.memory.since)
	return outcome.Outcome{}
}
