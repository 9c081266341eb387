package definition

import (
	"context"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// serve starts the controller of the instances, or sets the graphs of the running one. Without a
// valid graph a controller still runs for an existing kind: deletion needs no graph.
func (v *session) serve(ctx context.Context) error {
	v.rollout.step = revision.Step{Now: revision.StateOf(v.status), Next: revision.StateOf(v.status)}
	current, kind, ok := v.ownedCRD(ctx)
	if !ok {
		return nil
	}
	fallback := v.fallbackAccount()
	if fallback.Cluster == nil {
		return nil // its conditions say why
	}
	v.ensureController(kind)
	graphs := map[int64]*graph.Graph{}
	v.rollout.served, v.rollout.graphs = current, graphs
	var stepErr error
	if v.mayServe() {
		stepErr = v.serveCandidate(ctx, graphs)
	} else if err := v.fallBack(ctx, current, graphs); err != nil {
		return err
	}
	v.addStepGraphs(ctx, current, graphs)
	next := v.memory.composers
	if graphs[v.rollout.step.Now.Serving] != nil {
		next = v.assembleComposers(ctx, current, graphs)
	}
	v.setComposers(next, fallback)
	if v.memory.composers != nil {
		v.warmWatches(ctx)
	}
	return stepErr
}

// serveCandidate adds the graph of the candidate, and takes a step of its rollout. After an error the written state stays.
func (v *session) serveCandidate(ctx context.Context, graphs map[int64]*graph.Graph) error {
	c := v.choice.candidate
	graphs[c.number] = c.last.graph
	err := v.stepRollout(ctx)
	if c.isUnrecorded() {
		v.memory.compiled.published, v.memory.compiled.publishedAccount = *c.compilation, v.account.recorded()
	}
	return err
}

// addStepGraphs adds the graphs of the other revisions of the rollout state. One without a graph is removed from it.
func (v *session) addStepGraphs(ctx context.Context, current *apiextensionsv1.CustomResourceDefinition, graphs map[int64]*graph.Graph) {
	for _, n := range v.rollout.step.Now.Revisions() {
		if graphs[n] != nil {
			continue
		}
		if g, problem := v.graphOf(ctx, n, current); g != nil {
			graphs[n] = g
		} else {
			v.dropRevision(n, problem)
		}
	}
}

// ownedCRD finds the kind that the definition serves, by the owner of the CustomResourceDefinition, in the storage
// version, the version of the graph that it was published for. The spec may be invalid or ask for another version:
// existing instances must be reconciled anyway.
func (v *session) ownedCRD(ctx context.Context) (current *apiextensionsv1.CustomResourceDefinition, kind schema.GroupVersionKind, ok bool) {
	all := v.Kinds.CRDsOwnedBy(v.owner)
	i := slices.IndexFunc(all, func(c *apiextensionsv1.CustomResourceDefinition) bool { return v.source.kind == crd.GroupKind(c) })
	if v.source.kind.Kind == "" && len(all) > 0 {
		i = 0
	}
	if i < 0 || !crd.IsEstablished(all[i]) {
		return nil, kind, false
	}
	current = all[i]
	if hub := crd.StorageVersion(current); slices.ContainsFunc(current.Spec.Versions, func(version apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return version.Name == hub && version.Served
	}) {
		return current, crd.GroupKind(current).WithVersion(hub), true
	}
	// A kind without a served version may still have instances.
	kind, availability, err := v.Kinds.Availability(ctx, crd.GroupKind(current))
	return current, kind, err == nil && availability != kube.Gone
}

func (v *session) stepRollout(ctx context.Context) error {
	if !kube.MayWrite(ctx) {
		return nil // another installation takes the steps, and records them in the status
	}
	if v.choice.candidate.isUnrecorded() {
		v.rollout.step.Now = revision.State{}
		if v.history.unrecorded.reason != revisionsUnreadable { // otherwise the written state stays
			v.rollout.step.Next = revision.State{}
		}
		return nil
	}
	state := revision.StateOf(v.status)
	rolling := state.Rolling() == v.choice.target.Number
	if left := v.memory.rollout.countedAt.Add(revision.CountInterval(v.memory.rollout.members)).Sub(v.Now()); left > 0 && rolling {
		v.rollout.step.RequeueAfter = left
		return nil
	}
	if rolling {
		v.memory.rollout.waits.Store(true) // before the instances are read: a later change enqueues the definition
	}
	if v.inWaves() && v.memory.running.State().Phase != watch.Synced {
		return nil // the instances are unknown; the controller's state enqueues the definition
	}
	members := sync.OnceValue(func() []revision.Member { return v.members() })
	if left := v.memory.startedAt.Add(rolloutResumeDelay).Sub(v.Now()); left > 0 && rolling && slices.ContainsFunc(members(), revision.Member.IsUnobserved) {
		v.rollout.step.RequeueAfter = left
		return nil
	}
	step := state.StepTo(v.choice.target, v.choice.waves, members, v.Now())
	if unmatched := step.UnmatchedSelectors(members); len(unmatched) > 0 {
		found, err := serving.ReadSelected(ctx, v.Cluster, v.Hub, v.memory.running.Kind, unmatched)
		if err != nil {
			return err
		}
		if found {
			step = state.StepTo(v.choice.target, v.choice.waves, func() []revision.Member { return v.members() }, v.Now())
		}
	}
	v.rollout.proceeding, v.rollout.step = true, step
	rolling = step.Next.Rolling() != 0
	if was := v.memory.rollout.waits.Swap(rolling); rolling && !was {
		v.EnqueueDefinition(v.Key) // earlier changes of instances did not enqueue the definition
	}
	return nil
}

// rolloutResumeDelay is how long a rollout waits, after a restart, for all instances to be reconciled. Until then it
// keeps its state, so a ready wave does not become unready.
const rolloutResumeDelay = time.Minute

// dropRevision removes a revision without a graph from the rollout state: the serving revision replaces
// the one that is being rolled out, or the requested one replaces the serving one.
func (v *session) dropRevision(number int64, problem string) {
	if v.choice.obstacle.reason == "" && slices.Contains(v.rollout.step.Next.Revisions(), number) {
		v.choice.obstacle = obstacle{revisionInvalid, problem}
	}
	now := &v.rollout.step.Now
	switch {
	case number != now.Serving:
		now.Rollout = nil
	case v.mayServe():
		now.Serving = v.choice.candidate.number // no former revision can serve
		v.rollout.step.Next = revision.State{Serving: v.choice.candidate.number}
	}
}

// fallBack continues with a former revision while the requested one cannot serve: with the
// serving revision of the status; or, if the status is lost, with the newest one that can
// serve; or else with the definition that the CustomResourceDefinition was last published
// for, from its annotation.
func (v *session) fallBack(ctx context.Context, current *apiextensionsv1.CustomResourceDefinition, graphs map[int64]*graph.Graph) error {
	if v.rollout.step.Now.Serving != 0 {
		return nil // serve handles it
	}
	for _, one := range slices.Backward(v.history.revisions) {
		n := one.Spec.Revision
		if g, _ := v.graphOf(ctx, n, current); g != nil {
			graphs[n] = g
			v.rollout.step.Now, v.rollout.step.Next = revision.State{Serving: n}, revision.State{Serving: n}
			return nil
		}
	}
	c := &v.memory.compiled.published
	if c.spec == nil {
		spec, ok := kind.Accepted(current)
		if !ok {
			return nil
		}
		c.spec, v.memory.compiled.publishedAccount = spec, v.accountRules().recordedBy(spec)
	}
	v.servesPublished = true
	if _, problem := v.accountFor(0); problem != "" {
		return nil // its conditions say why
	}
	if err := v.recompile(ctx, c); err != nil {
		return err
	}
	if g := v.lastGood(ctx, c); g != nil {
		graphs[0] = g
	}
	return nil
}

// assembleComposers returns the composers of the instances: the graphs of the rollout state
// and those that instances request.
func (v *session) assembleComposers(ctx context.Context, current *apiextensionsv1.CustomResourceDefinition, graphs map[int64]*graph.Graph) *composers {
	refused := map[int64]string{}
	if v.memory.pins.any() {
		requested, known := v.pinnedRevisions()
		if known {
			v.memory.pins.retain(requested)
		}
		for n := range requested {
			if graphs[n] != nil {
				continue
			}
			if problem := v.requestProblem(n); problem != "" {
				refused[n] = problem
				continue
			}
			if g, problem := v.graphOf(ctx, n, current); g != nil {
				graphs[n] = g
			} else {
				refused[n] = problem
			}
		}
	}
	key, memory := v.Key, v.memory
	accounts := make(map[int64]*Account, len(graphs))
	for n := range graphs {
		account, problem := v.accountFor(n)
		if problem != "" {
			delete(graphs, n)
			refused[n] = problem
			continue
		}
		accounts[n] = &account
	}
	if graphs[v.rollout.step.Now.Serving] == nil {
		return memory.composers
	}
	missing, pending := v.missingAccounts(accounts)
	if v.unreadAccount = pending; pending != nil {
		return memory.composers // the lease enqueues the definition
	}
	return newComposers(composers{
		state: v.rollout.step.Now, graphs: graphs, accounts: accounts, overrides: v.overrides(), unavailable: missing, refused: refused,
		requested: func(number int64) {
			if memory.pins.add(number) {
				v.EnqueueDefinition(key)
			}
		},
	})
}

// setComposers sets the composers of the instances, with the account for instances that they do
// not compose, and enqueues the instances that get another graph or account.
func (v *session) setComposers(next *composers, fallback Account) {
	was := v.memory.composers
	if was != nil && was.digest == next.digest {
		next = was
	}
	v.memory.composers = next
	if changed := v.memory.reconcilers.set(next, fallback); !changed {
		return
	}
	for _, o := range v.Hub.Select(v.memory.running.Kind, "", labels.Everything()) {
		if was != nil && was.composesAs(o, next) {
			continue
		}
		v.memory.running.Enqueue(object.KeyOf(o), watch.Background)
	}
}

// pinnedRevisions are the revisions that instances request, if they may request any; known is
// false while the instances are unknown.
func (v *session) pinnedRevisions() (requested map[int64]bool, known bool) {
	requested = map[int64]bool{}
	if v.memory.running.Controller == nil || !v.overrides().AllowsRevision() {
		return requested, true // no instances exist yet, or none may request a revision
	}
	if v.memory.running.State().Phase != watch.Synced {
		return requested, false
	}
	for _, o := range v.Hub.Select(v.memory.running.Kind, "", labels.Everything()) {
		addPin(requested, o)
	}
	return requested, true
}

// readPins reads the pinnedRevisions from the API server: the watch of instances can be behind the watch of
// definitions, and a revision that is deleted is lost.
func (v *session) readPins(ctx context.Context) (requested map[int64]bool, err error) {
	requested = map[int64]bool{}
	if v.memory.running.Controller == nil || !v.overrides().AllowsRevision() {
		return requested, nil
	}
	all, err := v.Cluster.List(ctx, v.memory.running.Kind, "")
	for i := range all {
		addPin(requested, &all[i])
	}
	return requested, err
}

func addPin(requested map[int64]bool, instance *unstructured.Unstructured) {
	if pin, asks := revision.PinOf(instance); asks && pin.Number != 0 {
		requested[pin.Number] = true
	}
}

// members lists the instances as members of a rollout, and records when it did.
func (v *session) members() []revision.Member {
	var out []revision.Member
	for _, o := range v.Hub.Select(v.memory.running.Kind, "", labels.Everything()) {
		if !v.Shard.InNamespace(o.GetNamespace()) {
			continue // whether it is ready is known to another installation
		}
		_, pinned := revision.AllowedPinOf(o, v.overrides())
		m := revision.Member{Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels(), Pinned: pinned,
			Deleting: o.GetDeletionTimestamp() != nil || instance.Graphs{}.Suspended(o) != ""}
		if readiness, known := v.memory.readiness.Of(object.KeyOf(o)); known && v.memory.composers != nil {
			m.Revision = v.memory.composers.revisionOf(readiness.By)
			m.Ready, m.Reason, m.Message = readiness.Ready, readiness.Reason, readiness.Message
		}
		out = append(out, m)
	}
	v.memory.rollout.members, v.memory.rollout.countedAt = len(out), v.Now()
	return out
}

// warmWatches keeps a watch open on the kinds that instances will write, so the first instance need not wait for one:
// the first watch of a new kind takes the API server about a second. It also enqueues the definition when such a kind
// is installed.
func (v *session) warmWatches(ctx context.Context) {
	for user, account := range distinctAccounts(v.memory.composers.accounts) {
		lease := v.lease
		if account.Hub != v.Hub {
			lease = account.Hub.Begin(watch.Subscriber{Key: v.Key})
		}
		for _, gvk := range v.memory.composers.childKindsOf(user) {
			lease.Watch(v.warmTarget(ctx, gvk))
		}
		if account.Hub != v.Hub {
			lease.Commit()
		}
	}
}

// warmTarget targets children of a kind that a definition does not have: no object enqueues it. The
// account of a definition in a namespace may read that namespace only.
func (v *session) warmTarget(ctx context.Context, gvk schema.GroupVersionKind) watch.Target {
	id := string(v.owner.UID)
	if v.Key.Namespace == "" {
		return watch.ChildrenOf(gvk, id)
	}
	if served, err := v.Kinds.Resolve(ctx, gvk); err == nil && !served.Namespaced {
		return watch.ChildrenOf(gvk, id)
	}
	return watch.ChildrenIn(gvk, v.Key.Namespace, id)
}

func (v *session) ensureController(kind schema.GroupVersionKind) {
	m, key := v.memory, v.Key
	if m.running.Is(kind, v.owner) {
		return
	}
	m.running.Replace(v.owner, func() *queue.Controller {
		m.readiness = &instance.ReadinessCache{Changed: func() { v.instanceChanged(key, m) }}
		m.reconcilers = v.newReconcilers(kind)
		m.startedAt = v.Now()
		return v.Engine.Start(kind, v.Held(kind, m.reconcilers), func() { v.EnqueueDefinition(key) })
	}, func() {
		m.reconcilers.stop()
		m.reconcilers, m.readiness, m.composers = nil, nil, nil
	})
}

func (r *Dialect) instanceChanged(key object.Key, m *memory) {
	if m.rollout.waits.Load() {
		r.EnqueueDefinition(key)
	}
}
