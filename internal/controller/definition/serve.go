package definition

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/controller/instance"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/watch"
)

// serve starts the controller of the instances, or gives the one that runs a new
// graph. Without a good graph a controller still serves a kind of ours: deletion
// needs none.
func (r *Reconciler) serve(v *visit) {
	if !v.kind.ready && !v.kind.ours {
		return
	}
	kind := v.spec.Schema.InstanceKind()
	current, ok := r.Kinds.CRD(kind.GroupKind())
	if !ok || !crd.Established(current) {
		return
	}
	r.start(v, kind)
	r.warm(v)
	switch {
	case v.compiled.graph != nil && v.kind.ready:
		r.use(v, v.compiled.graph)
	case v.entry.good == nil:
		r.fallBack(v, current)
	}
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

// fallBack goes on, after a restart, with the definition that the kind was last
// served by, while the present one can't be used.
func (r *Reconciler) fallBack(v *visit, current *apiextensionsv1.CustomResourceDefinition) {
	spec, ok := crd.Accepted(current)
	if !ok {
		return
	}
	if g, problems := graph.Compile(spec, r.Kinds.Lookup); len(problems) == 0 {
		r.use(v, g)
	}
}

// warm keeps a watch open on the kinds that instances will write, so that the
// first instance needn't wait for one: the API server takes a second for the
// first watch of a new kind. It also wakes the definition when such a kind
// appears.
func (r *Reconciler) warm(v *visit) {
	if v.compiled.graph == nil {
		return
	}
	lease := r.Hub.Begin(watch.Subscriber{Key: v.key})
	for _, gvk := range v.compiled.graph.Written() {
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
	e.good = nil
	e.instances = &instance.Reconciler{
		Kind: kind, Definition: v.owner,
		Cluster: r.Cluster, Kinds: r.Kinds, Hub: r.Hub, Events: r.Events,
		Version: r.Version, Now: r.Now,
		Wake: func() { r.wake(v.key) },
	}
	e.serving = r.Engine.Start(kind, e.instances)
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
