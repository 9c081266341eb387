package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/health"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// readObjects reads the objects of all YAML files that match, in order.
func readObjects(files fs.FS, pattern string) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
		for {
			o := &unstructured.Unstructured{}
			if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if len(o.Object) > 0 {
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// apply waits until the kind is served, and applies an object as kubectl would.
func (s *demoStory) apply(ctx context.Context, o *unstructured.Unstructured) error {
	resource, err := s.waitForKind(ctx, o.GroupVersionKind())
	if err != nil {
		return err
	}
	for {
		_, err := s.cluster.Client.Resource(resource).Namespace(o.GetNamespace()).
			Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "espalier-demo"})
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		select { // a kind is served a moment after Established
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// waitForKind waits until the API server serves a custom kind, and returns its resource.
func (s *demoStory) waitForKind(ctx context.Context, gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	switch gvk.Group {
	case crdResource.Group:
		return crdResource, nil
	case corev1.GroupName:
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		return resource, nil
	}
	crd, err := waitForObject(ctx, s.cluster.Client.Resource(crdResource), "", func(o *unstructured.Unstructured) bool {
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		return group == gvk.Group && kind == gvk.Kind && condition.Read(o).IsTrue("Established")
	})
	if err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("kind %s is not served: %w", gvk.Kind, err)
	}
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	return gvk.GroupVersion().WithResource(plural), nil
}

// awaitReady waits until an object is ready.
func (s *demoStory) awaitReady(ctx context.Context, o *unstructured.Unstructured) error {
	resource, err := s.waitForKind(ctx, o.GroupVersionKind())
	if err != nil {
		return err
	}
	last := "it was not observed"
	_, err = waitForObject(ctx, s.cluster.Client.Resource(resource).Namespace(o.GetNamespace()), o.GetName(), func(o *unstructured.Unstructured) bool {
		h := health.Instance(o)
		last = h.Message
		return h.Ready
	})
	if err != nil {
		return fmt.Errorf("%s %s is not ready: %s: %w", o.GetKind(), o.GetName(), last, err)
	}
	return nil
}

// waitForObject watches objects, or the one of a name, until a condition holds for one of them.
func waitForObject(ctx context.Context, of dynamic.ResourceInterface, name string, wanted func(*unstructured.Unstructured) bool) (*unstructured.Unstructured, error) {
	only := func(o metav1.ListOptions) metav1.ListOptions {
		if name != "" {
			o.FieldSelector = "metadata.name=" + name
		}
		return o
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return of.List(ctx, only(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return of.Watch(ctx, only(o))
		},
	}
	event, err := watchtools.UntilWithSync(ctx, lw, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		o, ok := e.Object.(*unstructured.Unstructured)
		return ok && e.Type != watch.Deleted && wanted(o), nil
	})
	if err != nil {
		return nil, err
	}
	found, _ := event.Object.(*unstructured.Unstructured)
	return found, nil
}
