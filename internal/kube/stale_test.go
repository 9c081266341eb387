package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// TestManagedFieldsAreReplacedAlthoughOthersChangeTheObject answers the first patches with a conflict, after
// another client's change.
func TestManagedFieldsAreReplacedAlthoughOthersChangeTheObject(t *testing.T) {
	revision, patches, conflicts := 1, 0, 2
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPatch {
			if patches++; patches <= conflicts {
				revision++
			}
			var patch []struct {
				Path  string `json:"path"`
				Value any    `json:"value"`
			}
			if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
				t.Error(err)
			}
			if patch[0].Path != "/metadata/resourceVersion" || patch[0].Value != strconv.Itoa(revision) {
				w.WriteHeader(http.StatusConflict)
				_ = json.NewEncoder(w).Encode(apierrors.NewConflict(schema.GroupResource{}, "x", nil).ErrStatus)
				return
			}
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": {"name": "x", "namespace": "y", "uid": "u", "resourceVersion": "%d"}}`, revision)
	}))
	defer server.Close()
	client := kube.NewClient(dynamic.NewForConfigOrDie(&rest.Config{Host: server.URL}), resolved{})
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "x", "namespace": "y", "uid": "u"}}}
	replace := func() error {
		_, err := client.ReplaceManagedFields(t.Context(), o, "m", func(*unstructured.Unstructured) ([]metav1.ManagedFieldsEntry, bool) {
			return []metav1.ManagedFieldsEntry{{Manager: "m"}}, true
		})
		return err
	}
	if err := replace(); err != nil || patches != conflicts+1 {
		t.Errorf("after %d patches: %v", patches, err)
	}
	patches, conflicts = 0, math.MaxInt
	if err := replace(); !kube.IsStale(err) || patches > 10 {
		t.Errorf("after %d patches: %v", patches, err)
	}
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
