package definition

import (
	"context"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// ownedCRD finds the kind that the definition has, by who the
// CustomResourceDefinition belongs to, in the version that is stored, which is that of
// the graph that it was published for. The spec may be unreadable, or want another
// version than there is: instances that exist must be looked after all the same.
func (r *Dialect) ownedCRD(ctx context.Context, v *session) (current *apiextensionsv1.CustomResourceDefinition, kind schema.GroupVersionKind, ok bool) {
	all := r.Kinds.OwnedBy(v.owner)
	i := slices.IndexFunc(all, func(c *apiextensionsv1.CustomResourceDefinition) bool { return v.source.kind == crd.GroupKind(c) })
	if v.source.kind.Kind == "" && len(all) > 0 {
		i = 0
	}
	if i < 0 || !crd.Established(all[i]) {
		return nil, kind, false
	}
	current = all[i]
	if hub := crd.Hub(current); slices.ContainsFunc(current.Spec.Versions, func(version apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return version.Name == hub && version.Served
	}) {
		return current, crd.GroupKind(current).WithVersion(hub), true
	}
	// One that isn't served in any version has its instances all the same.
	kind, standing, err := r.Kinds.Availability(ctx, crd.GroupKind(current))
	return current, kind, err == nil && standing != kube.Gone
}

// serve starts the controller of the instances, or gives the one that runs new
// graphs. Without a good graph a controller still serves a kind of ours: deletion
// needs none.
func (r *Dialect) serve(ctx context.Context, v *session) error {
	v.rollout.step = revision.Step{Now: revision.StateOf(v.status), Next: revision.StateOf(v.status)}
	current, kind, ok := r.ownedCRD(ctx, v)
	if !ok {
		return nil
	}
	if v.account.Cluster == nil {
		return nil // its conditions say why
	}
	r.ensureController(v, kind)
	graphs := map[int64]*graph.Graph{}
	if v.choice.candidate.compilation != nil && v.readiness.Ready {
		graphs[v.choice.candidate.number] = v.choice.candidate.last.graph
		r.stepRollout(v)
		if v.choice.candidate.number == 0 {
			v.memory.compiled.published = *v.choice.candidate.compilation
		}
	} else if err := r.fallBack(ctx, v, current, graphs); err != nil {
		return err
	}
	for _, n := range v.rollout.step.Now.Revisions() {
		if graphs[n] != nil {
			continue
		}
		g, problem := r.graphOf(ctx, v, n, current)
		if g == nil {
			r.dropRevision(v, n, problem)
			continue
		}
		graphs[n] = g
	}
	if graphs[v.rollout.step.Now.Serving] != nil {
		r.setComposers(v, r.assembleComposers(ctx, v, current, graphs))
	}
	if v.memory.composers != nil {
		r.warmWatches(v)
	}
	return nil
}

// stepRollout takes the instances a step toward what the definition asks for.
func (r *Dialect) stepRollout(v *session) {
	if v.choice.candidate.number == 0 {
		v.rollout.step.Now = revision.State{}
		if v.history.unrecorded.reason != revisionsUnreadable { // then what was written is still so
			v.rollout.step.Next = revision.State{}
		}
		return
	}
	state := revision.StateOf(v.status)
	under := state.Rolling() == v.choice.target.Number
	if left := v.memory.rollout.countedAt.Add(countInterval(v.memory.rollout.members)).Sub(r.Now()); left > 0 && under {
		v.rollout.step.Again = left
		return
	}
	if under {
		v.memory.rollout.waits.Store(true) // before anybody is looked at: who changes afterwards is told of
	}
	if v.inWaves() && v.memory.running.State().Phase != watch.Synced {
		return // who there is can't be told; the controller's state wakes the definition
	}
	members := sync.OnceValue(func() []revision.Member { return r.members(v) })
	if left := v.memory.startedAt.Add(settling).Sub(r.Now()); left > 0 && under && slices.ContainsFunc(members(), revision.Member.Unseen) {
		v.rollout.step.Again = left
		return
	}
	v.rollout.proceeding = true
	v.rollout.step = state.Toward(v.choice.target, v.choice.waves, members, r.Now())
	under = v.rollout.step.Next.Rolling() != 0
	if was := v.memory.rollout.waits.Swap(under); under && !was {
		r.Wake(v.Key) // what instances have said so far woke nobody
	}
}

// settling is for how long a rollout that is under way waits, after a restart, for all
// instances to be looked at: until then it is as it was, and no wave that was ready isn't.
const settling = time.Minute

// countInterval is how long to wait between two looks at so many instances, each of which asks for
// one: a crowd would keep a worker busy.
func countInterval(members int) time.Duration {
	if members < 500 {
		return 0
	}
	return time.Duration(members) * time.Millisecond / 10
}

// dropRevision is what becomes of a state whose revision has no graph: the one that serves takes
// the place of one that is rolled out, and the other way round.
func (r *Dialect) dropRevision(v *session, number int64, problem string) {
	if v.choice.obstacle.reason == "" {
		v.choice.obstacle = obstacle{revisionInvalid, problem}
	}
	now := &v.rollout.step.Now
	switch {
	case number != now.Serving:
		now.Rollout = nil
	case v.choice.candidate.compilation != nil && v.readiness.Ready:
		now.Serving = v.choice.candidate.number // nothing that served before is left
		v.rollout.step.Next = revision.State{Serving: v.choice.candidate.number}
	}
}

// fallBack goes on with what served before, while what the definition asks for can't be
// used: with the revision that the status tells; or else, where the status is lost, with the
// newest that can serve; or else with the definition that the kind was last published for,
// as the CustomResourceDefinition tells.
func (r *Dialect) fallBack(ctx context.Context, v *session, current *apiextensionsv1.CustomResourceDefinition, graphs map[int64]*graph.Graph) error {
	if v.rollout.step.Now.Serving != 0 {
		return nil // serve sees to it
	}
	for _, one := range slices.Backward(v.history.revisions) {
		n := one.Spec.Revision
		if g, _ := r.graphOf(ctx, v, n, current); g != nil {
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
		c.spec = spec
	}
	if err := r.recompile(ctx, v, c); err != nil {
		return err
	}
	if g := r.lastGood(ctx, c); g != nil {
		graphs[0] = g
	}
	return nil
}

// assembleComposers puts together what composes the instances: the state's graphs, and those that
// instances ask for themselves.
func (r *Dialect) assembleComposers(ctx context.Context, v *session, current *apiextensionsv1.CustomResourceDefinition, graphs map[int64]*graph.Graph) *composers {
	refused := map[int64]string{}
	if v.memory.pins.any() {
		asked, known := r.pinnedRevisions(v)
		if known {
			v.memory.pins.retain(asked)
		}
		for n := range asked {
			if graphs[n] != nil {
				continue
			}
			if g, problem := r.graphOf(ctx, v, n, current); g != nil {
				graphs[n] = g
			} else {
				refused[n] = problem
			}
		}
	}
	key, memory := v.Key, v.memory
	return newComposers(v.rollout.step.Now, graphs, refused, func(number int64) {
		if memory.pins.add(number) {
			r.Wake(key)
		}
	})
}

// setComposers lets the instances be composed by other composers, and wakes those for which these
// find another graph.
func (r *Dialect) setComposers(v *session, next *composers) {
	was := v.memory.composers
	if was != nil && was.mark == next.mark {
		return
	}
	v.memory.composers = next
	v.memory.instances.SetComposer(next)
	for _, o := range r.Hub.Select(v.memory.running.Kind, "", labels.Everything()) {
		if was != nil {
			before, _ := was.find(o)
			if after, _ := next.find(o); after == before {
				continue
			}
		}
		v.memory.running.Wake(object.KeyOf(o), watch.Background) // work for when there is nothing more urgent
	}
}

// pinnedRevisions are the revisions that instances ask for; known is false while the instances can't be
// told.
func (r *Dialect) pinnedRevisions(v *session) (asked map[int64]bool, known bool) {
	asked = map[int64]bool{}
	if v.memory.running.Controller == nil {
		return asked, true // nobody is served yet
	}
	if v.memory.running.State().Phase != watch.Synced {
		return asked, false
	}
	for _, o := range r.Hub.Select(v.memory.running.Kind, "", labels.Everything()) {
		if pin, asks := revision.PinOf(o); asks && pin.Number != 0 {
			asked[pin.Number] = true
		}
	}
	return asked, true
}

// members are the instances as a rollout sees them.
func (r *Dialect) members(v *session) []revision.Member {
	all := r.Hub.Select(v.memory.running.Kind, "", labels.Everything())
	out := make([]revision.Member, len(all))
	for i, o := range all {
		_, pinned := revision.PinOf(o)
		m := revision.Member{Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels(), Pinned: pinned, Deleting: o.GetDeletionTimestamp() != nil || instance.Graphs{}.Suspended(o) != ""}
		if stands, known := v.memory.instances.Readiness.Of(object.KeyOf(o)); known && v.memory.composers != nil {
			m.Revision = v.memory.composers.revisionOf(stands.By)
			m.Ready, m.Reason, m.Message = stands.Ready, stands.Reason, stands.Message
		}
		out[i] = m
	}
	v.memory.rollout.members, v.memory.rollout.countedAt = len(out), r.Now()
	return out
}

// warmWatches keeps a watch open on the kinds that instances will write, so that the
// first instance needn't wait for one: the API server takes a second for the
// first watch of a new kind. It also wakes the definition when such a kind
// appears.
func (r *Dialect) warmWatches(v *session) {
	lease := v.lease
	if hub := v.memory.account.Hub; hub != r.Hub {
		lease = hub.Begin(watch.Subscriber{Key: v.Key})
		defer lease.Commit()
	}
	for _, gvk := range v.memory.composers.Written() {
		lease.Want(watch.ChildrenOf(gvk, string(v.owner.UID))) // nobody's children: no object wakes the definition
	}
}

// servedAs is what the controller of the instances is started for.
type servedAs struct {
	owner   object.Definition
	account Account
}

// ensureController makes sure that a controller runs for the kind, for this incarnation of its
// definition and with the rights of its account.
func (r *Dialect) ensureController(v *session, kind schema.GroupVersionKind) {
	m, account, key := v.memory, v.account, v.Key
	if m.running.Is(kind, servedAs{v.owner, account}) {
		return
	}
	m.running.Replace(servedAs{v.owner, account}, func() *queue.Controller {
		m.account = account
		m.instances = &instance.Reconciler{
			Kind: kind, Definition: v.owner, Dialect: instance.Graphs{},
			Cluster: account.Cluster, Children: account.Hub, Lease: instance.Leases(account.Hub), Instances: r.Hub, Kinds: r.Kinds, Events: r.Events,
			Version: r.Version, Now: r.Now, Usages: r.Usages, Layers: r.Layers,
			Wake:      func() { r.Wake(key) },
			Readiness: &instance.ReadinessCache{Changed: func() { r.instanceChanged(key, m) }},
		}
		m.startedAt = r.Now()
		return r.Engine.Start(kind, r.Held(kind, m.instances), func() { r.Wake(key) })
	}, func() {
		if account.Hub != r.Hub {
			account.Hub.ForgetKind(kind.GroupKind())
			account.Hub.Forget(watch.Subscriber{Key: key})
		}
		m.instances, m.composers = nil, nil
	})
}

// instanceChanged asks for another pass over a definition whose instances are being waited for.
func (r *Dialect) instanceChanged(key object.Key, e *memory) {
	if e.rollout.waits.Load() {
		r.Wake(key)
	}
}
