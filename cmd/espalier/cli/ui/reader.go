package ui

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/page"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// Bounds of what a viewer reads.
const (
	maxCountedKinds = 100 // kinds that have their instances counted on the overview
	// lookupInterval is the least time between two attempts to find kinds that are not served.
	lookupInterval = 2 * time.Second
)

// Program reads the watches and queues of the running controllers.
type Program func(context.Context) ([]page.Watch, []page.Queue, error)

// reader is the Cluster of an API server.
type reader struct {
	*follow.Cluster
	program Program
	held    *held // nil if it does not matter how many objects are
}

// held counts the objects of lists that are in memory, for all viewers of a server.
type held struct {
	count atomic.Int64
	max   int64
}

// add reports whether there are not too many.
func (h *held) add(n int64) bool { return h.count.Add(n) <= h.max }

// NewCluster returns the Cluster that reads with a configuration. It makes no request.
func NewCluster(config *rest.Config, program Program) (Cluster, error) {
	c, err := follow.New(config)
	if err != nil {
		return nil, err
	}
	return &reader{Cluster: c, program: program}, nil
}

// Program implements Cluster.
func (r *reader) Program(ctx context.Context) ([]page.Watch, []page.Queue, error) {
	return r.program(ctx)
}

// definitionKinds are the kinds of definitions.
var definitionKinds = []schema.GroupKind{
	{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.ResourceGraphDefinitionKind},
	{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.ResourceGroupKind},
	{Group: "apiextensions.crossplane.io", Kind: "CompositeResourceDefinition"},
}

// watching are the watches of one stream.
type watching struct {
	*reader
	running sync.WaitGroup
	changed chan struct{} // has room for one signal
	full    atomic.Bool   // there were too many objects
	missed  time.Time     // when a kind was last not served
}

func (r *reader) newWatching() *watching {
	return &watching{reader: r, changed: make(chan struct{}, 1)}
}

func (w *watching) wake() {
	select {
	case w.changed <- struct{}{}:
	default: // a signal is pending
	}
}

// objects are the watched objects of a kind.
type objects struct {
	cache.SharedInformer
	handled cache.ResourceEventHandlerRegistration
	name    string
	problem atomic.Pointer[string]
	dirty   atomic.Bool
	count   atomic.Int64
	list    page.List
}

// trim removes what lists do not show: specs, of which an instance may have much, and managed fields.
func trim(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	delete(u.Object, "spec")
	delete(u.Object, "data") // of Secrets, should somebody list these
	delete(u.Object, "stringData")
	u.SetManagedFields(nil)
	if annotations := u.GetAnnotations(); annotations["kubectl.kubernetes.io/last-applied-configuration"] != "" {
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		u.SetAnnotations(annotations)
	}
	return u, nil
}

// watch watches the objects of a kind until the context ends.
func (w *watching) watch(ctx context.Context, m *meta.RESTMapping, of Ref, selector string, transform cache.TransformFunc) *objects {
	informer := dynamicinformer.NewFilteredDynamicInformer(w.Client, m.Resource, of.Namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.LabelSelector = selector
		if of.Name != "" {
			o.FieldSelector = "metadata.name=" + of.Name
		}
	}).Informer()
	out := &objects{SharedInformer: informer, name: m.Resource.GroupResource().String()}
	change := func() {
		out.dirty.Store(true)
		w.wake()
	}
	if transform != nil {
		_ = informer.SetTransform(transform) // it has not started
	}
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { // it has not started
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return // the watch begins again
		}
		text := problemText(out.name, err)
		out.problem.Store(&text)
		change()
	})
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.hold(out, 1); change() },
		UpdateFunc: func(any, any) { change() },
		DeleteFunc: func(any) { w.hold(out, -1); change() },
	})
	if err != nil {
		panic("an informer that has not started takes handlers: " + err.Error())
	}
	out.handled = registration
	w.running.Go(func() {
		informer.RunWithContext(ctx)
		w.hold(out, -out.count.Load())
	})
	w.running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			out.problem.Store(nil)
			change()
		}
	})
	return out
}

// hold counts objects that are in memory from now on.
func (w *watching) hold(o *objects, n int64) {
	o.count.Add(n)
	if w.held != nil && !w.held.add(n) && n > 0 {
		w.full.Store(true)
	}
}

// tooMany says that not all can be read.
func (w *watching) tooMany() error {
	return fmt.Errorf("there are more objects than this server keeps for all of its viewers, %d; a list of one namespace has fewer, and espalier ui on your machine has no such limit", w.held.max)
}

// problemText says why a kind cannot be read.
func problemText(name string, err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "you may not list and watch " + name
	case apierrors.IsUnauthorized(err):
		return "the API server no longer accepts your credentials"
	case apierrors.IsNotFound(err):
		return name + " is not served any more"
	}
	return "cannot watch " + name + "; retrying"
}

// HasSynced reports whether the objects have been read, and counted.
func (o *objects) HasSynced() bool { return o.handled.HasSynced() }

// read reports whether the objects have been read, or cannot be.
func (o *objects) read() bool { return o.HasSynced() || o.problem.Load() != nil }

func (o *objects) all() []*unstructured.Unstructured {
	list := o.GetStore().List()
	out := make([]*unstructured.Unstructured, 0, len(list))
	for _, x := range list {
		if u, ok := x.(*unstructured.Unstructured); ok {
			out = append(out, u)
		}
	}
	return out
}

// run calls send after each change until the context ends or send fails, and ends the watches.
func (w *watching) run(ctx context.Context, stop context.CancelFunc, send func() error) error {
	defer w.running.Wait()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.changed:
		}
		if err := send(); err != nil {
			return err
		}
	}
}

func send[T any](ctx context.Context, states chan<- T, state T) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case states <- state:
		return nil
	}
}

// Instances implements Cluster.
func (r *reader) Instances(ctx context.Context, of Ref, states chan<- []*unstructured.Unstructured) error {
	m, err := r.mapping(of.GroupKind)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	w := r.newWatching()
	of.Name = ""
	if m.Scope.Name() == meta.RESTScopeNameRoot {
		of.Namespace = ""
	}
	list := w.watch(ctx, m, of, "", trim)
	return w.run(ctx, stop, func() error {
		if problem := list.problem.Load(); problem != nil {
			return errors.New(*problem)
		}
		if w.full.Load() {
			return w.tooMany()
		}
		if !list.HasSynced() {
			return nil
		}
		return send(ctx, states, list.all())
	})
}

func (r *reader) mapping(gk schema.GroupKind) (*meta.RESTMapping, error) {
	m, err := r.Kinds.RESTMapping(gk)
	if follow.IsNoMatch(err) {
		return nil, fmt.Errorf("the API server has no kind %s", gk)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot look up kind %s: %s", gk, reasonOf(err))
	}
	return m, nil
}

// reasonOf is the kind of a failure, without texts of the connection.
func reasonOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return "the API server does not answer"
}

// Tree implements Cluster.
func (r *reader) Tree(ctx context.Context, of Ref, states chan<- observe.ClusterState) error {
	m, err := r.mapping(of.GroupKind)
	if err != nil {
		return err
	}
	if m.Scope.Name() == meta.RESTScopeNameRoot {
		of.Namespace = ""
	}
	err = r.Follow(ctx, follow.Target{Mapping: m, Namespace: of.Namespace, Name: of.Name}, states)
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return errors.New(problemText(m.Resource.GroupResource().String(), err))
	}
	return err
}

// Definition implements Cluster.
func (r *reader) Definition(ctx context.Context, of Ref, states chan<- Definition) error {
	if !slices.Contains(definitionKinds, of.GroupKind) {
		return fmt.Errorf("%s is not a kind of definitions", of.GroupKind)
	}
	m, err := r.mapping(of.GroupKind)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	w := r.newWatching()
	definition := w.watch(ctx, m, of, "", nil)
	var revisions *objects
	if of.Group == v1alpha1.GroupVersion.Group {
		if m, err := r.mapping(schema.GroupKind{Group: rev.GroupVersion.Group, Kind: "GraphRevision"}); err == nil {
			revisions = w.watch(ctx, m, Ref{}, labels.Set{v1alpha1.DefinitionNameLabel: object.LabelValue(of.Name)}.String(), withoutSnapshots)
		}
	}
	return w.run(ctx, stop, func() error {
		if problem := definition.problem.Load(); problem != nil {
			return errors.New(*problem)
		}
		if w.full.Load() {
			return w.tooMany()
		}
		if !definition.HasSynced() || revisions != nil && !revisions.read() {
			return nil
		}
		state := Definition{}
		for _, o := range definition.all() {
			state.Definition, state.Kinds = o, kindsOf(o)
		}
		if revisions != nil {
			state.Revisions = revisionsOf(revisions.all(), object.Definition{Name: of.Name, Namespace: of.Namespace})
			if problem := revisions.problem.Load(); problem != nil {
				state.Problem = *problem
			}
		}
		return send(ctx, states, state)
	})
}

// withoutSnapshots removes what revisions are of, but for the name.
func withoutSnapshots(o any) (any, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		snapshot, _, _ := unstructured.NestedMap(u.Object, "spec", "snapshot")
		maps.DeleteFunc(snapshot, func(field string, _ any) bool { return field != "name" && field != "namespace" })
		_ = unstructured.SetNestedMap(u.Object, snapshot, "spec", "snapshot") // it is a map
		u.SetManagedFields(nil)
	}
	return o, nil
}

func revisionsOf(all []*unstructured.Unstructured, of object.Definition) []*rev.GraphRevision {
	var out []*rev.GraphRevision
	for _, o := range all {
		r := &rev.GraphRevision{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, r) == nil && revision.BelongsTo(r, of) {
			out = append(out, r)
		}
	}
	return out
}

func kindsOf(definition *unstructured.Unstructured) []schema.GroupKind {
	var out []schema.GroupKind
	for _, gvk := range archive.Defines(definition) {
		out = append(out, gvk.GroupKind())
	}
	return out
}

// Definitions implements Cluster.
func (r *reader) Definitions(ctx context.Context, states chan<- Definitions) error {
	ctx, stop := context.WithCancel(ctx)
	o := &overview{watching: r.newWatching(), counted: map[schema.GroupKind]*counted{}}
	for _, gk := range definitionKinds {
		m, err := r.mapping(gk)
		if err != nil {
			o.problems = append(o.problems, err.Error())
			continue
		}
		o.definitions = append(o.definitions, o.watch(ctx, m, Ref{}, "", nil))
	}
	o.wake()
	return o.run(ctx, stop, func() error {
		state, ready := o.state(ctx)
		if !ready {
			return nil
		}
		return send(ctx, states, state)
	})
}

// overview are the watches of the overview.
type overview struct {
	*watching
	definitions []*objects
	problems    []string
	counted     map[schema.GroupKind]*counted
}

// counted are the instances of a kind; nil objects if the kind is not served.
type counted struct {
	*objects
	stop   context.CancelFunc
	counts page.Counts
}

func (o *overview) state(ctx context.Context) (state Definitions, ready bool) {
	state.Problems = slices.Clone(o.problems)
	if o.full.Load() {
		for _, c := range o.counted {
			c.stop()
		}
		clear(o.counted)
		state.Problems = append(state.Problems, "instances are not counted: "+o.tooMany().Error())
	}
	wanted := map[schema.GroupKind]bool{}
	for _, list := range o.definitions {
		if !list.read() {
			return Definitions{}, false
		}
		if problem := list.problem.Load(); problem != nil {
			state.Problems = append(state.Problems, *problem)
		}
		for _, d := range list.all() {
			facts := page.DefinitionFacts{Definition: d, Kinds: kindsOf(d)}
			for _, gk := range facts.Kinds {
				wanted[gk] = true
			}
			facts.Counts = o.count(ctx, facts.Kinds)
			state.All = append(state.All, facts)
		}
	}
	for gk, c := range o.counted {
		if !wanted[gk] {
			c.stop()
			delete(o.counted, gk)
		}
	}
	for _, gk := range slices.SortedFunc(maps.Keys(o.counted), func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) }) {
		if problem := o.counted[gk].problem.Load(); problem != nil {
			state.Problems = append(state.Problems, *problem)
		}
	}
	return state, true
}

// count counts the instances of kinds; nil while they are not known.
func (o *overview) count(ctx context.Context, kinds []schema.GroupKind) *page.Counts {
	var sum page.Counts
	for _, gk := range kinds {
		c := o.counted[gk]
		if c == nil {
			if c = o.startCounting(ctx, gk); c == nil {
				return nil
			}
		}
		if !c.HasSynced() {
			return nil
		}
		if c.dirty.Swap(false) {
			c.list.Set(c.all(), time.Now())
			c.counts = c.list.Counts()
		}
		sum = sum.Add(c.counts)
	}
	return &sum
}

func (o *overview) startCounting(ctx context.Context, gk schema.GroupKind) *counted {
	if o.full.Load() || len(o.counted) >= maxCountedKinds || time.Since(o.missed) < lookupInterval {
		return nil
	}
	m, err := o.mapping(gk)
	if err != nil {
		o.missed = time.Now()
		return nil
	}
	counting, stop := context.WithCancel(ctx)
	c := &counted{objects: o.watch(counting, m, Ref{}, "", trim), stop: stop}
	o.counted[gk] = c
	return c
}
