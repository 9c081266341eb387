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
)

// Resource is where the API server serves a kind.
type Resource struct {
	GVR        schema.GroupVersionResource
	Namespaced bool
}

// source lists and watches one selection of a kind.
type source interface {
	List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error)
}

// remote is the selection as the API server has it.
func remote(client dynamic.Interface, r Resource, s Selection, managed string) source {
	var objects dynamic.ResourceInterface = client.Resource(r.GVR)
	if s.namespace != "" && r.Namespaced {
		objects = client.Resource(r.GVR).Namespace(s.namespace)
	}
	narrowed := narrowing{ResourceInterface: objects, labels: s.labels}
	if s.managed {
		narrowed.labels = managed
	}
	if s.name != "" {
		narrowed.fields = fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String()
	}
	return narrowed
}

type narrowing struct {
	dynamic.ResourceInterface
	labels, fields string
}

func (n narrowing) narrow(options metav1.ListOptions) metav1.ListOptions {
	options.LabelSelector, options.FieldSelector = n.labels, n.fields
	return options
}

func (n narrowing) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return n.ResourceInterface.List(ctx, n.narrow(options))
}

func (n narrowing) Watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	return n.ResourceInterface.Watch(ctx, n.narrow(options))
}

// requests is a source as the reflector sees it. It tells the actor how each
// request went, since the reflector keeps some failures to itself.
type requests struct {
	source
	told func(context.Context, outcome)
}

// outcome is the end of one request.
type outcome struct {
	watching bool // what it leaves behind: an open watch or none
	err      error
}

var _ cache.ListerWatcherWithContext = requests{}

// ListWithContext implements cache.ListerWithContext.
func (r requests) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := r.List(ctx, options)
	if err != nil {
		err = &refusal{"list", err}
		r.told(ctx, outcome{err: err})
		return nil, err
	}
	r.told(ctx, outcome{})
	return list, nil
}

// WatchWithContext implements cache.WatcherWithContext.
func (r requests) WatchWithContext(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	w, err := r.Watch(ctx, options)
	switch {
	case err == nil:
		r.told(ctx, outcome{watching: true})
		return w, nil
	case options.SendInitialEvents != nil && *options.SendInitialEvents:
		// The reflector lists next, and that failure is the one to tell.
		return nil, unretried(err)
	}
	err = &refusal{"watch", err}
	r.told(ctx, outcome{err: err})
	return nil, err
}

// unretried hides what kind of error it is from a reflector that would sit it
// out: while it does, nothing can stop it. Retrying is the actor's business.
func unretried(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) || apierrors.IsTooManyRequests(err) {
		return errors.New(err.Error())
	}
	return err
}

// contextless is what a reflector asks for; it then prefers the methods with a
// context, and these aren't called.
type contextless struct{ requests }

// List implements cache.Lister.
func (c contextless) List(options metav1.ListOptions) (runtime.Object, error) {
	return c.ListWithContext(context.Background(), options)
}

// Watch implements cache.Watcher.
func (c contextless) Watch(options metav1.ListOptions) (apiwatch.Interface, error) {
	return c.WatchWithContext(context.Background(), options)
}
