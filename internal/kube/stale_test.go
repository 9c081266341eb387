package kube_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube"
)

type resolved struct{}

func (resolved) Resolve(context.Context, schema.GroupVersionKind) (kube.Resource, error) {
	return kube.Resource{GVR: schema.GroupVersionResource{Group: "x.example.com", Version: "v1", Resource: "things"}, Namespaced: true}, nil
}

// TestAnUnservedVersionIsNotADeletedObject asks a server that
// doesn't serve the version (any more, or yet): the object may well be there.
func TestAnUnservedVersionIsNotADeletedObject(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler()) // as kube-apiserver answers: 404 page not found
	defer server.Close()
	client := kube.NewClient(dynamic.NewForConfigOrDie(&rest.Config{Host: server.URL}), resolved{})
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "x", "namespace": "y", "uid": "u"}}}
	if err := client.Delete(t.Context(), o); err == nil {
		t.Error("a page that isn't found counts as an object whose deletion was granted")
	}
	if err := client.PatchIfExists(t.Context(), o, map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": nil}}}, "m"); err == nil {
		t.Error("a page that isn't found counts as an object that was released, which records an event")
	}
}
