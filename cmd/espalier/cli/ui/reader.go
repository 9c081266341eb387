package ui

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/page"
	"github.com/espalier-dev/espalier/internal/observe/reader"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// Program reads the watches and queues of the running controllers.
type Program func(context.Context) ([]page.Watch, []page.Queue, error)

// viewer is the Cluster of an API server, as one viewer may read it.
type viewer struct {
	*reader.Cluster
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
	c, err := reader.New(l.observed(config))
	if err != nil {
		return nil, err
	}
	return &viewer{Cluster: c, program: program, link: l}, nil
}

// IsReachable implements Cluster.
func (r *viewer) IsReachable() bool { return r.link.isReachable() }

// Program implements Cluster.
func (r *viewer) Program(ctx context.Context) ([]page.Watch, []page.Queue, error) {
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
	*viewer
	*reader.Watches
	isFull atomic.Bool // there were too many objects
}

// watching calls use with watches, whose objects count as held.
func (r *viewer) watching(ctx context.Context, use func(context.Context, *watching) error) error {
	return r.Watching(ctx, func(ctx context.Context, watches *reader.Watches) error {
		w := &watching{viewer: r, Watches: watches}
		watches.Count = func(difference int64) {
			if r.held != nil && !r.held.add(difference) && difference > 0 {
				w.isFull.Store(true)
			}
		}
		return use(ctx, w)
	})
}

// trim removes what lists do not show: specs, of which an instance may have much, but for the claim of a composite, and managed fields.
func trim(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	claim, isClaimed, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "claimRef")
	if delete(u.Object, "spec"); isClaimed {
		u.Object["spec"] = map[string]any{"claimRef": claim}
	}
	delete(u.Object, "data") // of Secrets, should somebody list these
	delete(u.Object, "stringData")
	u.SetManagedFields(nil)
	if annotations := u.GetAnnotations(); annotations["kubectl.kubernetes.io/last-applied-configuration"] != "" {
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		u.SetAnnotations(annotations)
	}
	return u, nil
}

// watched are the watched objects of a kind.
type watched struct {
	*reader.Objects
	place place
}

// watch watches the objects of a kind until the context ends.
func (w *watching) watch(ctx context.Context, m *meta.RESTMapping, of Ref, selector string, transform cache.TransformFunc) *watched {
	q := reader.Target{Mapping: m, Namespace: of.Namespace, Name: of.Name}.Query()
	q.Labels = selector
	return &watched{w.Watch(ctx, q, transform, nil), placeOf(m, q.Namespace)}
}

// problem says why the objects cannot be read; nil if they can.
func (o *watched) problem() error {
	if err := o.Problem(); err != nil {
		return problemOf(o.place, err)
	}
	return nil
}

// tooMany says that not all can be read.
func (w *watching) tooMany() error {
	return fmt.Errorf("there are more objects than this server keeps for all of its viewers, %d; a list of one namespace has fewer, and espalier ui on your machine has no such limit", w.held.max)
}

// place is a resource, and where it is read.
type place struct {
	reader.Query
	isNamespaced bool
}

func placeOf(m *meta.RESTMapping, namespace string) place {
	return place{reader.QueryOf(m, namespace), !reader.IsClusterScoped(m)}
}

// String names the resource and where it is read.
func (p place) String() string { return reader.Place(p.Query, p.isNamespaced) }

// forbiddenError says that the viewer may not read what is at a place.
type forbiddenError struct{ place }

// Error implements error. A caller that knows what follows from it adds that.
func (e *forbiddenError) Error() string {
	return "you are not allowed to list and watch " + e.place.String()
}

// advice says what a viewer can do who may not read instances.
func (e *forbiddenError) advice() string {
	if e.isNamespaced && e.Namespace == "" {
		return "if you are allowed to in one namespace, name it above"
	}
	return "ask an administrator for a role with the verbs list and watch for " + e.Resource.GroupResource().String()
}

// problemOf says why a kind cannot be read.
func problemOf(at place, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return &forbiddenError{at}
	case apierrors.IsUnauthorized(err):
		return errors.New("the API server no longer accepts your credentials; log in again, or renew those of the kubeconfig")
	case apierrors.IsNotFound(err):
		return errors.New(at.Resource.GroupResource().String() + " is no longer served")
	}
	return &TemporaryError{"cannot watch " + at.String() + ": " + reasonOf(err)}
}

// withAdvice adds to a refusal what to do.
func withAdvice(err error) error {
	var forbidden *forbiddenError
	if errors.As(err, &forbidden) {
		return fmt.Errorf("%w; %s", forbidden, forbidden.advice())
	}
	return err
}

// Instances implements Cluster.
func (r *viewer) Instances(ctx context.Context, of Ref, states chan<- []*unstructured.Unstructured) error {
	m, err := r.mappingAsWritten(of.GroupKind)
	if err != nil {
		return err
	}
	of.Name = ""
	return r.watching(ctx, func(ctx context.Context, w *watching) error {
		list := w.watch(ctx, m, of, "", trim)
		return w.Run(ctx, func() (done bool, err error) {
			if problem := list.problem(); problem != nil {
				return false, withAdvice(problem)
			}
			if w.isFull.Load() {
				return false, w.tooMany()
			}
			if !list.HasSynced() {
				return false, nil
			}
			return false, reader.Send(ctx, states, list.All())
		})
	})
}

// errNoKind says that a kind is not served.
type errNoKind struct{ kind string }

// Error implements error.
func (e *errNoKind) Error() string { return "the API server has no kind " + e.kind }

func (r *viewer) mapping(gk schema.GroupKind) (*meta.RESTMapping, error) {
	m, err := r.Kinds.RESTMapping(gk)
	return m, lookupError(gk, err)
}

// mappingAsWritten is the mapping of a kind that a person may have written: as kind, plural or short name, without a group or before it.
func (r *viewer) mappingAsWritten(gk schema.GroupKind) (*meta.RESTMapping, error) {
	if gk.Group != "" {
		return r.mapping(gk)
	}
	if m, err := r.Kinds.RESTMapping(gk); err == nil || !meta.IsNoMatchError(err) {
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
	case meta.IsNoMatchError(err):
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
func (r *viewer) Tree(ctx context.Context, of Ref, states chan<- observe.ClusterState) error {
	m, err := r.mapping(of.GroupKind)
	if err != nil {
		return err
	}
	at := placeOf(m, of.Namespace)
	err = follow.Follow(ctx, r.Cluster, reader.Target{Mapping: m, Namespace: at.Namespace, Name: of.Name}, states)
	if reader.IsRefusal(err) {
		return withAdvice(problemOf(at, err))
	}
	return err
}

// Definition implements Cluster.
func (r *viewer) Definition(ctx context.Context, of Ref, states chan<- Definition) error {
	if !slices.Contains(definitionKinds, of.GroupKind) {
		return fmt.Errorf("%s is not a kind of definitions", of.GroupKind)
	}
	m, err := r.mapping(of.GroupKind)
	if err != nil {
		return err
	}
	return r.watching(ctx, func(ctx context.Context, w *watching) error {
		definition := w.watch(ctx, m, of, "", nil)
		var revisions *watched
		if of.Group == v1alpha1.GroupVersion.Group {
			if m, err := r.mapping(schema.GroupKind{Group: rev.GroupVersion.Group, Kind: "GraphRevision"}); err == nil {
				revisions = w.watch(ctx, m, Ref{}, labels.Set{v1alpha1.DefinitionNameLabel: object.LabelValue(of.Name)}.String(), withoutSnapshots)
			}
		}
		return w.Run(ctx, func() (done bool, err error) {
			if problem := definition.problem(); problem != nil {
				return false, withDefinitionAdvice(problem)
			}
			if w.isFull.Load() {
				return false, w.tooMany()
			}
			if !definition.HasSynced() || revisions != nil && !revisions.HasEnded() {
				return false, nil
			}
			return false, reader.Send(ctx, states, definitionOf(definition, revisions, of))
		})
	})
}

// definitionOf is a definition with its revisions, which are nil if their kind is not served.
func definitionOf(definition, revisions *watched, of Ref) (state Definition) {
	for _, o := range definition.All() {
		state.Definition, state.Kinds = o, kindsOf(o)
	}
	if revisions != nil {
		state.Revisions = revisionsOf(revisions.All(), object.Definition{Name: of.Name, Namespace: of.Namespace})
		if problem := revisions.problem(); problem != nil {
			state.Problem = problem.Error() + ", so revisions are not shown"
		}
	}
	return state
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
