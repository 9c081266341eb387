package watch

import (
	"context"
	"errors"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/espalier-dev/espalier/internal/kube/listwatch"
)

// Resource is where the API server serves a kind.
type Resource struct {
	GVR        schema.GroupVersionResource
	Namespaced bool
}

type source interface {
	List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error)
}

func remoteSource(client dynamic.Interface, r Resource, s Selection, managed string) source {
	var objects dynamic.ResourceInterface = client.Resource(r.GVR)
	if s.namespace != "" && r.Namespaced {
		objects = client.Resource(r.GVR).Namespace(s.namespace)
	}
	narrowed := selectedSource{ResourceInterface: objects, labels: s.labels}
	if s.managed {
		narrowed.labels = managed
	}
	if s.name != "" {
		narrowed.fields = fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String()
	}
	return narrowed
}

type selectedSource struct {
	dynamic.ResourceInterface
	labels, fields string
}

func (n selectedSource) narrow(options metav1.ListOptions) metav1.ListOptions {
	options.LabelSelector, options.FieldSelector = n.labels, n.fields
	return options
}

func (n selectedSource) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return n.ResourceInterface.List(ctx, n.narrow(options))
}

func (n selectedSource) Watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	return n.ResourceInterface.Watch(ctx, n.narrow(options))
}

// reportingSource is a source that reports the outcome of each request, because the reflector does not return all
// failures.
type reportingSource struct {
	source
	bounds    *listwatch.Bounds
	onOutcome func(context.Context, outcome)
}

type outcome struct {
	watching bool // the request left an open watch
	err      error
}

var _ cache.ListerWatcherWithContext = reportingSource{}

// ListWithContext implements cache.ListerWithContext.
func (r reportingSource) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := listwatch.List(ctx, func(ctx context.Context) (*unstructured.UnstructuredList, error) { return r.List(ctx, options) })
	if err != nil {
		err = &requestError{"list", err}
		r.onOutcome(ctx, outcome{err: err})
		return nil, err
	}
	r.onOutcome(ctx, outcome{})
	return list, nil
}

// WatchWithContext implements cache.WatcherWithContext.
func (r reportingSource) WatchWithContext(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	w, err := r.bounds.Watch(ctx, options, func(ctx context.Context) (apiwatch.Interface, error) { return r.Watch(ctx, options) })
	switch {
	case err == nil:
		r.onOutcome(ctx, outcome{watching: true})
		return w, nil
	case options.SendInitialEvents != nil && *options.SendInitialEvents:
		// The reflector lists next, and that outcome is reported.
		return nil, hideRetryable(err, options.ResourceVersion)
	}
	err = &requestError{"watch", err}
	r.onOutcome(ctx, outcome{err: err})
	return nil, err
}

// hideRetryable hides the type of an error that the reflector would retry by itself: while
// it does, nothing can stop it. The actor retries instead. The error of a revision is one of
// these if the request had none: the reflector would repeat the same request at once.
func hideRetryable(err error, revision string) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), apierrors.IsTooManyRequests(err),
		revision == "" && (isExpired(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)):
		return errors.New(err.Error())
	}
	return err
}

// listerWatcher is a reportingSource with the methods without a context, which
// cache.ListerWatcher requires. The reflector prefers those with a context and does not call
// these.
type listerWatcher struct{ reportingSource }

// List implements cache.Lister.
func (l listerWatcher) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch implements cache.Watcher.
func (l listerWatcher) Watch(options metav1.ListOptions) (apiwatch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}
