// Package backup exports objects from an API server, and imports an export into one. Package
// archive decides what is in an export, and in which order.
// See docs/design/0009-export-and-import.md.
package backup

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
)

// Manager is the field manager of what an import writes.
const Manager = "espalier-import"

// Kinds that are read and written by name.
var (
	bindingKind   = espalier.GroupVersion.WithKind(espalier.BindingKind)
	holdKind      = espalier.GroupVersion.WithKind(espalier.HoldKind)
	crdKind       = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	secretKind    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
)

// Mapper finds how kinds are served, and can drop its cache;
// *restmapper.DeferredDiscoveryRESTMapper implements it.
type Mapper interface {
	RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error)
	Reset()
}

// reader reads the objects of a kind.
type reader interface {
	Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error)
	List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error)
}

// writer changes the objects of a kind.
type writer interface {
	Create(ctx context.Context, o *unstructured.Unstructured, options metav1.CreateOptions, subresources ...string) (*unstructured.Unstructured, error)
	Update(ctx context.Context, o *unstructured.Unstructured, options metav1.UpdateOptions, subresources ...string) (*unstructured.Unstructured, error)
	Patch(ctx context.Context, name string, kind types.PatchType, body []byte, options metav1.PatchOptions,
		subresources ...string) (*unstructured.Unstructured, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions, subresources ...string) error
}

// objects reads and writes the objects of a kind; a dynamic.ResourceInterface implements it.
type objects interface {
	reader
	writer
	UpdateStatus(ctx context.Context, o *unstructured.Unstructured, options metav1.UpdateOptions) (*unstructured.Unstructured, error)
}

// Cluster is a connection to an API server.
type Cluster struct {
	client dynamic.Interface
	mapper Mapper
}

// Connect returns a connection to an API server. It makes no request.
func Connect(config *rest.Config) (*Cluster, error) {
	config = kube.RetryInitializing(config)
	config.WarningHandler = rest.NoWarnings{} // the API server warns of the names of finalizers, for each object
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	disc, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &Cluster{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disc))}, nil
}

// objects returns the client for the objects of a kind. Its error satisfies isUnserved if the
// kind is not served.
func (c *Cluster) objects(gvk schema.GroupVersionKind, namespace string) (objects, error) {
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset() // the kind may have been installed since discovery
		mapping, err = c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("find kind %s of %s: %w", gvk.Kind, gvk.GroupVersion(), err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.client.Resource(mapping.Resource).Namespace(namespace), nil
	}
	return c.client.Resource(mapping.Resource), nil
}

func isUnserved(err error) bool {
	var group *discovery.ErrGroupDiscoveryFailed
	return meta.IsNoMatchError(err) || errors.As(err, &group) || kube.IsKindNotServed(err)
}

// get reads an object; nil if the API server answers that none of the name exists. A path that
// is not served at the moment is an error instead.
func (c *Cluster) get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	r, err := c.objects(gvk, namespace)
	if err != nil {
		return nil, err
	}
	o, err := r.Get(ctx, name, metav1.GetOptions{})
	if kube.IsObjectNotFound(err, name) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", gvk.Kind, name, err)
	}
	return o, nil
}

// pageSize limits how many objects are in memory at a time.
const pageSize = 500

// each lists all objects of a kind at one resource version, page by page. If that version
// expires meanwhile, it calls restart and begins again.
func (c *Cluster) each(ctx context.Context, gvk schema.GroupVersionKind, restart func(), visit func(*unstructured.Unstructured) error) error {
	r, err := c.objects(gvk, "")
	if err != nil {
		return err
	}
	for next := ""; ; {
		page, err := r.List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if apierrors.IsResourceExpired(err) && next != "" {
			restart()
			next = ""
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s of %s: %w", gvk.Kind, gvk.GroupVersion(), err)
		}
		for i := range page.Items {
			if err := visit(&page.Items[i]); err != nil {
				return err
			}
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

// installation identifies the control plane permanently, by the UID of namespace kube-system.
func (c *Cluster) installation(ctx context.Context) (string, error) {
	ns, err := c.get(ctx, namespaceKind, "", "kube-system")
	switch {
	case err != nil:
		return "", err
	case ns == nil:
		return "", errors.New("namespace kube-system not found: its UID identifies the control plane")
	}
	return string(ns.GetUID()), nil
}
