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
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
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
	link    *link
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
	l := &link{}
	c, err := follow.New(l.observed(config))
	if err != nil {
		return nil, err
	}
	return &reader{Cluster: c, program: program, link: l}, nil
}

// IsReachable implements Cluster.
func (r *reader) IsReachable() bool { return r.link.isReachable() }

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
	problem atomic.Pointer[error]
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
	out := &objects{}
	change := func() {
		out.dirty.Store(true)
		w.wake()
	}
	client := w.Client.Resource(m.Resource).Namespace(of.Namespace)
	narrow := func(o *metav1.ListOptions) {
		o.LabelSelector = selector
		if of.Name != "" {
			o.FieldSelector = "metadata.name=" + of.Name
		}
	}
	informer := cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			narrow(&o)
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			narrow(&o)
			watched, err := client.Watch(ctx, o)
			if err == nil && out.problem.Swap(nil) != nil {
				change()
			}
			return watched, err
		},
	}, w.Client), &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{ObjectDescription: m.Resource.String()})
	out.SharedInformer = informer
	if transform != nil {
		_ = informer.SetTransform(transform) // it has not started
	}
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { // it has not started
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return // the watch begins again
		}
		problem := problemOf(placeOf(m, of.Namespace), err)
		out.problem.Store(&problem)
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

// place is a resource, and where it is read.
type place struct {
	resource, where string
	all             bool // of all namespaces, although it has some
}

func placeOf(m *meta.RESTMapping, namespace string) place {
	p := place{resource: m.Resource.GroupResource().String()}
	switch {
	case m.Scope.Name() == meta.RESTScopeNameRoot:
	case namespace == "":
		p.where, p.all = " in all namespaces", true
	default:
		p.where = " in namespace " + namespace
	}
	return p
}

// forbiddenError says that the viewer may not read what is at a place.
type forbiddenError struct{ place }

// Error implements error. A caller that knows what follows from it adds that.
func (e *forbiddenError) Error() string { return "you may not list and watch " + e.resource + e.where }

// advice says what a viewer can do who may not read instances.
func (e *forbiddenError) advice() string {
	if e.all {
		return "if you may in a namespace, name it above"
	}
	return "ask an administrator for a role with the verbs list and watch for " + e.resource
}

// problemOf says why a kind cannot be read.
func problemOf(at place, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return &forbiddenError{at}
	case apierrors.IsUnauthorized(err):
		return errors.New("the API server no longer accepts your credentials; log in again, or renew those of the kubeconfig")
	case apierrors.IsNotFound(err):
		return errors.New(at.resource + " is not served any more")
	}
	return &TemporaryError{"cannot watch " + at.resource + at.where + ": " + reasonOf(err)}
}

// withAdvice adds to a refusal what to do.
func withAdvice(err error) error {
	var forbidden *forbiddenError
	if errors.As(err, &forbidden) {
		return fmt.Errorf("%w; %s", forbidden, forbidden.advice())
	}
	return err
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
	m, err := r.mappingAsWritten(of.GroupKind)
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
			return withAdvice(*problem)
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

// errNoKind says that a kind is not served.
type errNoKind struct{ kind string }

// Error implements error.
func (e *errNoKind) Error() string { return "the API server has no kind " + e.kind }

func (r *reader) mapping(gk schema.GroupKind) (*meta.RESTMapping, error) {
	m, err := r.Kinds.RESTMapping(gk)
	return m, lookupError(gk, err)
}

// mappingAsWritten is the mapping of a kind that a person may have written: as kind, plural or short name, without a group or before it.
func (r *reader) mappingAsWritten(gk schema.GroupKind) (*meta.RESTMapping, error) {
	if gk.Group != "" {
		return r.mapping(gk)
	}
	if m, err := r.Kinds.RESTMapping(gk); err == nil || !follow.IsNoMatch(err) {
		return m, lookupError(gk, err)
	}
	target, err := r.Kinds.Target(gk.Kind, "", "") // discovery is new now
	if cause := errors.Unwrap(err); cause != nil {
		return nil, lookupError(gk, cause)
	}
	return target.Mapping, err // it names the most similar kind
}

func lookupError(gk schema.GroupKind, err error) error {
	switch {
	case follow.IsNoMatch(err):
		return &errNoKind{gk.String()}
	case err != nil:
		return &TemporaryError{fmt.Sprintf("cannot look up kind %s: %s", gk, reasonOf(err))}
	}
	return nil
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
		return withAdvice(problemOf(placeOf(m, of.Namespace), err))
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
			return withDefinitionAdvice(*problem)
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
				state.Problem = (*problem).Error() + ", so revisions are not shown"
			}
		}
		return send(ctx, states, state)
	})
}

// viewerRole is the name of the ClusterRole for reading definitions, as it is installed.
const viewerRole = "espalier-viewer"

// withDefinitionAdvice adds to a refusal to read a definition what to do.
func withDefinitionAdvice(err error) error {
	var forbidden *forbiddenError
	if errors.As(err, &forbidden) {
		return fmt.Errorf("%w; ask an administrator for the ClusterRole %s, which permits it", forbidden, viewerRole)
	}
	return err
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
	defer o.running.Wait()
	defer stop()
	for _, gk := range definitionKinds {
		m, err := r.mapping(gk)
		var noKind *errNoKind
		switch {
		case errors.As(err, &noKind): // of a dialect that is not served
		case err != nil:
			return err
		default:
			o.definitions = append(o.definitions, o.watch(ctx, m, Ref{}, "", nil))
		}
	}
	if len(o.definitions) == 0 {
		return errors.New("the API server has no kind of definitions, such as " + definitionKinds[0].String() + "; install Espalier in this cluster, or choose another context")
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
	counted     map[schema.GroupKind]*counted
}

// counted are the instances of a kind; nil objects if the kind is not served.
type counted struct {
	*objects
	stop   context.CancelFunc
	counts page.Counts
}

func (o *overview) state(ctx context.Context) (state Definitions, ready bool) {
	isForbidden := false
	note := func(err error, consequence string) {
		var forbidden *forbiddenError
		text := err.Error()
		if errors.As(err, &forbidden) {
			isForbidden = true
			text += consequence
		}
		state.Problems = append(state.Problems, text)
	}
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
			note(*problem, ", so these definitions are not shown")
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
			note(*problem, ", so its instances are not counted; if you may in a namespace, choose the definition and name the namespace")
		}
	}
	if isForbidden {
		state.Problems = append(state.Problems, "an administrator can permit it: the ClusterRole "+viewerRole+" has the verbs list and watch for definitions, and roles for the kinds of instances need the same verbs")
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
