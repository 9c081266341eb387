// Package reader reads a cluster for the commands that show or examine it: once, page by page, or as it changes. It has
// the permissions of its connection, and says of what it cannot read which kind that is, where, and why. It writes
// nothing.
package reader

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/object"
)

// Cluster reads the objects of an API server. It may be used concurrently.
type Cluster struct {
	Client   dynamic.Interface
	Kinds    *Kinds
	metadata metadata.Interface
}

// New returns the cluster of a configuration. It makes no request.
func New(config *rest.Config) (*Cluster, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	c := NewFor(client, found)
	if c.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return c, nil
}

// NewFor returns the cluster of two clients. It cannot read metadata alone.
func NewFor(client dynamic.Interface, found discovery.DiscoveryInterface) *Cluster {
	return &Cluster{Client: client, Kinds: newKinds(found)}
}

// Query selects objects of a resource. It is comparable.
type Query struct {
	Resource schema.GroupVersionResource
	// Namespace is where the objects are; empty for all namespaces, and for cluster-scoped kinds.
	Namespace string
	// Labels and Fields are selectors; empty ones select everything.
	Labels, Fields string
	// MetadataOf is the kind of the objects if only their metadata is to be read.
	MetadataOf string
	// Max is how many objects are read at most; 0 for all.
	Max int
}

// QueryOf selects all objects of a kind in a namespace, or in all namespaces; a cluster-scoped kind has no namespaces.
func QueryOf(m *meta.RESTMapping, namespace string) Query {
	if IsClusterScoped(m) {
		namespace = ""
	}
	return Query{Resource: m.Resource, Namespace: namespace}
}

// IsClusterScoped reports whether the objects of a kind are in no namespace.
func IsClusterScoped(m *meta.RESTMapping) bool { return m.Scope.Name() == meta.RESTScopeNameRoot }

// String names the resource, and its namespace: "pods in namespace prod".
func (q Query) String() string {
	if q.Namespace == "" {
		return q.Resource.GroupResource().String()
	}
	return q.Resource.GroupResource().String() + " in namespace " + q.Namespace
}

// Place names the resource, and where its objects are read, also if that is everywhere: "pods in all namespaces".
func Place(q Query, isNamespaced bool) string {
	if isNamespaced && q.Namespace == "" {
		return q.String() + " in all namespaces"
	}
	return q.String()
}

// ListError says that a list failed, and of which resource.
type ListError struct {
	Resource schema.GroupResource
	Err      error
}

// Error implements error.
func (e *ListError) Error() string { return fmt.Sprintf("list %s: %v", e.Resource, e.Err) }

// Unwrap returns the cause.
func (e *ListError) Unwrap() error { return e.Err }

// pageSize bounds the objects of one response.
const pageSize = 500

// Each calls visit for each object, page by page. A kind that is not served has none. The error is a ListError, or that
// of visit.
func (c *Cluster) Each(ctx context.Context, q Query, visit func(*unstructured.Unstructured) error) error {
	options := metav1.ListOptions{LabelSelector: q.Labels, FieldSelector: q.Fields}
	for n := 0; q.Max == 0 || n < q.Max; {
		options.Limit = pageSize
		if q.Max > 0 {
			options.Limit = int64(min(pageSize, q.Max-n))
		}
		page, err := c.page(ctx, q, options)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return &ListError{q.Resource.GroupResource(), err}
		}
		for i := range page.Items {
			if err := visit(&page.Items[i]); err != nil {
				return err
			}
		}
		n += len(page.Items)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	return nil
}

// List reads objects as Each does. With an error, it returns those that were read before.
func (c *Cluster) List(ctx context.Context, q Query) (out []*unstructured.Unstructured, err error) {
	err = c.Each(ctx, q, func(o *unstructured.Unstructured) error {
		out = append(out, o)
		return nil
	})
	return out, err
}

// ListKind reads all objects of a kind in all namespaces, in whichever version is served; none if it is not.
func (c *Cluster) ListKind(ctx context.Context, gk schema.GroupKind) ([]*unstructured.Unstructured, error) {
	m, err := c.Kinds.RESTMapping(gk)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.List(ctx, QueryOf(m, ""))
}

// Get reads an object in whichever version is served; nil if it does not exist. The error is an UnknownKindError if its
// kind is not served.
func (c *Cluster) Get(ctx context.Context, key object.Key) (*unstructured.Unstructured, error) {
	t, err := c.Kinds.TargetOf(key)
	if err != nil {
		return nil, err
	}
	o, err := c.ResourceClient(t).Get(ctx, t.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// page reads one page of a list.
func (c *Cluster) page(ctx context.Context, q Query, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if q.MetadataOf == "" {
		return c.Client.Resource(q.Resource).Namespace(q.Namespace).List(ctx, options)
	}
	list, err := c.metadata.Resource(q.Resource).Namespace(q.Namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	out := &unstructured.UnstructuredList{}
	out.SetContinue(list.Continue)
	for i := range list.Items {
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list.Items[i])
		if err != nil {
			return nil, err
		}
		o := unstructured.Unstructured{Object: raw}
		o.SetGroupVersionKind(q.Resource.GroupVersion().WithKind(q.MetadataOf))
		out.Items = append(out.Items, o)
	}
	return out, nil
}
