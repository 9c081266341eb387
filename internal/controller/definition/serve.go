package definition

import (
	"context"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/controller/instance"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
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

// serve starts the controller of the instances, or gives the one that runs a new
// graph. Without a good graph a controller still serves a kind of ours: deletion
// needs none.
func (r *Reconciler) serve(ctx context.Context, v *visit) error {
	current, kind, ok := r.owned(ctx, v)
	if !ok {
		return nil
	}
	r.start(v, kind)
	var err error
	if v.compiled.graph != nil && v.kind.Ready {
		v.entry.served = v.entry.own
		r.use(v, v.compiled.graph)
	} else {
		err = r.fallBack(ctx, v, current)
	}
	if v.entry.good != nil {
		r.warm(v, v.entry.good)
	}
	return err
}

// use lets the instances be composed by a graph, and looks at all of them again
// if it is a new one.
func (r *Reconciler) use(v *visit, g *graph.Graph) {
	if v.entry.good == g {
		return
	}
	v.entry.good = g
	v.entry.instances.SetComposer(instance.FromGraph(g))
	r.wakeInstances(v)
}

// fallBack goes on with the definition that the kind was last published for,
// while the present one can't be used. After a restart it is read from the
// CustomResourceDefinition. It follows the kinds that it uses like any other.
func (r *Reconciler) fallBack(ctx context.Context, v *visit, current *apiextensionsv1.CustomResourceDefinition) error {
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
	if g := c.last.graph; g != nil {
		r.use(v, g)
	}
	return nil
}

// warm keeps a watch open on the kinds that instances will write, so that the
// first instance needn't wait for one: the API server takes a second for the
// first watch of a new kind. It also wakes the definition when such a kind
// appears.
func (r *Reconciler) warm(v *visit, g *graph.Graph) {
	lease := r.Hub.Begin(watch.Subscriber{Key: v.key})
	for _, gvk := range g.Written() {
		lease.Want(watch.ChildrenOf(gvk, string(v.owner.UID))) // nobody's children: no object wakes the definition
	}
	lease.Commit()
}

// start makes sure that a controller runs for the kind and for this incarnation
// of its definition.
func (r *Reconciler) start(v *visit, kind schema.GroupVersionKind) {
	e := v.entry
	if e.serving != nil && e.serving.Kind == kind && e.instances.Definition == v.owner {
		return
	}
	r.halt(e)
	e.instances = &instance.Reconciler{
		Kind: kind, Definition: v.owner, Dialect: instance.Graphs{},
		Cluster: r.Cluster, Kinds: r.Kinds, Hub: r.Hub, Events: r.Events,
		Version: r.Version, Now: r.Now, Usages: r.Usages,
		Wake: func() { r.wake(v.key) },
	}
	e.serving = r.Engine.Start(kind, r.Held(kind, e.instances), func() { r.wake(v.key) })
}

func (r *Reconciler) halt(e *entry) {
	if e.serving != nil {
		e.serving.Stop()
		e.serving, e.instances, e.good = nil, nil, nil
	}
}

// wake asks for another pass over a definition.
func (r *Reconciler) wake(key object.Key) {
	r.Engine.Enqueue(watch.Subscriber{Key: key}, watch.Cause{Priority: watch.Normal})
}

// wakeInstances asks for a pass over each instance. It is work for when there is
// nothing more urgent.
func (r *Reconciler) wakeInstances(v *visit) {
	for _, o := range r.Hub.Select(v.entry.serving.Kind, "", labels.Everything()) {
		v.entry.serving.Wake(object.KeyOf(o), watch.Background)
	}
}
