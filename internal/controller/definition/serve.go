package definition

import (
	"context"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/controller/instance"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/revision"
	"github.com/espalier-dev/espalier/internal/watch"
)

// owned finds the kind that the definition has, by who the
// CustomResourceDefinition belongs to, in the version that is stored, which is that of
// the graph that it was published for. The spec may be unreadable, or want another
// version than there is: instances that exist must be looked after all the same.
func (r *Reconciler) owned(ctx context.Context, v *visit) (current *apiextensionsv1.CustomResourceDefinition, kind schema.GroupVersionKind, ok bool) {
	all := r.Kinds.OwnedBy(v.owner)
	i := slices.IndexFunc(all, func(c *apiextensionsv1.CustomResourceDefinition) bool { return v.wants == crd.GroupKind(c) })
	if v.wants.Kind == "" && len(all) > 0 {
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
	kind, standing, err := r.Kinds.Standing(ctx, crd.GroupKind(current))
	return current, kind, err == nil && standing != cluster.Gone
}

// serve starts the controller of the instances, or gives the one that runs new
// graphs. Without a good graph a controller still serves a kind of ours: deletion
// needs none.
func (r *Reconciler) serve(ctx context.Context, v *visit) error {
	v.step = revision.Step{Now: revision.StateOf(v.status), Next: revision.StateOf(v.status)}
	current, kind, ok := r.owned(ctx, v)
	if !ok {
		return nil
	}
	if v.account.Cluster == nil {
		return nil // its conditions say why
	}
	r.start(v, kind)
	graphs := map[int64]*graph.Graph{}
	if v.lead.compilation != nil && v.kind.Ready {
		graphs[v.lead.number] = v.lead.last.graph
		r.proceed(v)
		if v.lead.number == 0 {
			v.entry.served = *v.lead.compilation
		}
	} else if err := r.fallBack(ctx, v, current, graphs); err != nil {
		return err
	}
	for _, n := range v.step.Now.Revisions() {
		if graphs[n] != nil {
			continue
		}
		g, problem := r.graphOf(ctx, v, n, current)
		if g == nil {
			r.missing(v, n, problem)
			continue
		}
		graphs[n] = g
	}
	if graphs[v.step.Now.Serving] != nil {
		r.use(v, r.chooser(ctx, v, current, graphs))
	}
	if v.entry.chooser != nil {
		r.warm(v)
	}
	return nil
}

// proceed takes the instances a step toward what the definition asks for.
func (r *Reconciler) proceed(v *visit) {
	if v.lead.number == 0 {
		v.step.Now = revision.State{}
		if v.unkept.reason != revisionsUnreadable { // then what was written is still so
			v.step.Next = revision.State{}
		}
		return
	}
	state := revision.StateOf(v.status)
	under := state.Rolling() == v.target.Number
	if left := v.entry.looked.Add(leisure(v.entry.members)).Sub(r.Now()); left > 0 && under {
		v.step.Again = left
		return
	}
	if under {
		v.entry.rolling.Store(true) // before anybody is looked at: who changes afterwards is told of
	}
	if v.inWaves() && v.entry.serving.State().Phase != watch.Synced {
		return // who there is can't be told; the controller's state wakes the definition
	}
	members := sync.OnceValue(func() []revision.Member { return r.members(v) })
	if left := v.entry.began.Add(settling).Sub(r.Now()); left > 0 && under && slices.ContainsFunc(members(), revision.Member.Unseen) {
		v.step.Again = left
		return
	}
	v.proceeding = true
	v.step = state.Toward(v.target, v.waves, members, r.Now())
	under = v.step.Next.Rolling() != 0
	if was := v.entry.rolling.Swap(under); under && !was {
		r.wake(v.key) // what instances have said so far woke nobody
	}
}

// settling is for how long a rollout that is under way waits, after a restart, for all
// instances to be looked at: until then it is as it was, and no wave that was ready isn't.
const settling = time.Minute

// leisure is how long to wait between two looks at so many instances, each of which asks for
// one: a crowd would keep a worker busy.
func leisure(members int) time.Duration {
	if members < 500 {
		return 0
	}
	return time.Duration(members) * time.Millisecond / 10
}

// missing is what becomes of a state whose revision has no graph: the one that serves takes
// the place of one that is rolled out, and the other way round.
func (r *Reconciler) missing(v *visit, number int64, problem string) {
	if v.hitch.reason == "" {
		v.hitch = hitch{revisionInvalid, problem}
	}
	now := &v.step.Now
	switch {
	case number != now.Serving:
		now.Rollout = nil
	case v.lead.compilation != nil && v.kind.Ready:
		now.Serving = v.lead.number // nothing that served before is left
		v.step.Next = revision.State{Serving: v.lead.number}
	}
}

// fallBack goes on with what served before, while what the definition asks for can't be
// used: with the revision that the status tells; or else, where the status is lost, with the
// newest that can serve; or else with the definition that the kind was last published for,
// as the CustomResourceDefinition tells.
func (r *Reconciler) fallBack(ctx context.Context, v *visit, current *apiextensionsv1.CustomResourceDefinition, graphs map[int64]*graph.Graph) error {
	if v.step.Now.Serving != 0 {
		return nil // serve sees to it
	}
	for _, one := range slices.Backward(v.revisions) {
		n := one.Spec.Revision
		if g, _ := r.graphOf(ctx, v, n, current); g != nil {
			graphs[n] = g
			v.step.Now, v.step.Next = revision.State{Serving: n}, revision.State{Serving: n}
			return nil
		}
	}
	c := &v.entry.served
	if c.spec == nil {
		spec, ok := crd.Accepted(current)
		if !ok {
			return nil
		}
		c.spec = spec
	}
	if err := r.refresh(ctx, v, c); err != nil {
		return err
	}
	if g := r.lastGood(ctx, c); g != nil {
		graphs[0] = g
	}
	return nil
}

// chooser puts together what composes the instances: the state's graphs, and those that
// instances ask for themselves.
func (r *Reconciler) chooser(ctx context.Context, v *visit, current *apiextensionsv1.CustomResourceDefinition, graphs map[int64]*graph.Graph) *chooser {
	refused := map[int64]string{}
	if v.entry.pins.any() {
		asked, known := r.pins(v)
		if known {
			v.entry.pins.only(asked)
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
	key, entry := v.key, v.entry
	return newChooser(v.step.Now, graphs, refused, func(number int64) {
		if entry.pins.note(number) {
			r.wake(key)
		}
	})
}

// use lets the instances be composed by a chooser, and looks at those again for whom it
// chooses another graph.
func (r *Reconciler) use(v *visit, next *chooser) {
	was := v.entry.chooser
	if was != nil && was.mark == next.mark {
		return
	}
	v.entry.chooser = next
	v.entry.instances.SetComposer(next)
	for _, o := range r.Hub.Select(v.entry.serving.Kind, "", labels.Everything()) {
		if was != nil {
			before, _ := was.pick(o)
			if after, _ := next.pick(o); after == before {
				continue
			}
		}
		v.entry.serving.Wake(object.KeyOf(o), watch.Background) // work for when there is nothing more urgent
	}
}

// pins are the revisions that instances ask for; known is false while the instances can't be
// told.
func (r *Reconciler) pins(v *visit) (asked map[int64]bool, known bool) {
	asked = map[int64]bool{}
	if v.entry.serving == nil {
		return asked, true // nobody is served yet
	}
	if v.entry.serving.State().Phase != watch.Synced {
		return asked, false
	}
	for _, o := range r.Hub.Select(v.entry.serving.Kind, "", labels.Everything()) {
		if pin, asks := revision.PinOf(o); asks && pin.Number != 0 {
			asked[pin.Number] = true
		}
	}
	return asked, true
}

// members are the instances as a rollout sees them.
func (r *Reconciler) members(v *visit) []revision.Member {
	all := r.Hub.Select(v.entry.serving.Kind, "", labels.Everything())
	out := make([]revision.Member, len(all))
	for i, o := range all {
		_, pinned := revision.PinOf(o)
		m := revision.Member{Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels(), Pinned: pinned, Deleting: o.GetDeletionTimestamp() != nil || instance.Graphs{}.Resting(o) != ""}
		if stands, known := v.entry.instances.Standings.Of(object.KeyOf(o)); known && v.entry.chooser != nil {
			m.Revision = v.entry.chooser.number(stands.By)
			m.Ready, m.Reason, m.Message = stands.Ready, stands.Reason, stands.Message
		}
		out[i] = m
	}
	v.entry.members, v.entry.looked = len(out), r.Now()
	return out
}

// warm keeps a watch open on the kinds that instances will write, so that the
// first instance needn't wait for one: the API server takes a second for the
// first watch of a new kind. It also wakes the definition when such a kind
// appears.
func (r *Reconciler) warm(v *visit) {
	lease := v.lease
	if hub := v.entry.account.Hub; hub != r.Hub {
		lease = hub.Begin(watch.Subscriber{Key: v.key})
		defer lease.Commit()
	}
	for _, gvk := range v.entry.chooser.Written() {
		lease.Want(watch.ChildrenOf(gvk, string(v.owner.UID))) // nobody's children: no object wakes the definition
	}
}

// start makes sure that a controller runs for the kind, for this incarnation of its
// definition and with the rights of its account.
func (r *Reconciler) start(v *visit, kind schema.GroupVersionKind) {
	e, account := v.entry, v.account
	if e.serving != nil && e.serving.Kind == kind && e.instances.Definition == v.owner && e.account == account {
		return
	}
	r.halt(e)
	e.account, e.key = account, v.key
	e.instances = &instance.Reconciler{
		Kind: kind, Definition: v.owner, Dialect: instance.Graphs{},
		Cluster: account.Cluster, World: account.Hub, Kinds: r.Kinds, Hub: r.Hub, Events: r.Events,
		Version: r.Version, Now: r.Now, Usages: r.Usages, Layers: r.Layers,
		Wake:      func() { r.wake(v.key) },
		Standings: &instance.Standings{Changed: func() { r.stirred(v.key, e) }},
	}
	e.began = r.Now()
	e.serving = r.Engine.Start(kind, r.Held(kind, e.instances), func() { r.wake(v.key) })
}

func (r *Reconciler) halt(e *entry) {
	if e.serving != nil {
		e.serving.Stop()
		if hub := e.account.Hub; hub != r.Hub {
			hub.ForgetKind(e.serving.Kind.GroupKind())
			hub.Forget(watch.Subscriber{Key: e.key})
		}
		e.serving, e.instances, e.chooser = nil, nil, nil
	}
}

// wake asks for another pass over a definition.
func (r *Reconciler) wake(key object.Key) {
	r.Engine.Enqueue(watch.Subscriber{Key: key}, watch.Cause{Priority: watch.Normal})
}

// stirred asks for another pass over a definition whose instances are being waited for.
func (r *Reconciler) stirred(key object.Key, e *entry) {
	if e.rolling.Load() {
		r.wake(key)
	}
}
