package kube_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube"
)

// TestTheServerDoesNotLookForUnknownFields makes each kind of write. Nobody would read the warnings.
func TestTheServerDoesNotLookForUnknownFields(t *testing.T) {
	const answer = `{"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": {"name": "x", "namespace": "y", "uid": "u"}}`
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) == 0 {
			t.Errorf("%s: the body has %d bytes; %v", r.Method, len(body), err)
		}
		sent = append(sent, fmt.Sprint(r.Method, " ", r.Header.Get("Content-Type"), " ", r.URL.Query().Get("fieldManager"), " ", r.URL.Query().Get("force"), " ", r.URL.Query().Get("fieldValidation")))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	client := kube.NewClient(dynamic.NewForConfigOrDie(&rest.Config{Host: server.URL}), resolved{})
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(answer)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		write func() (*unstructured.Unstructured, error)
		want  string
	}{
		{func() (*unstructured.Unstructured, error) { return client.Create(t.Context(), o, "m") }, "PATCH application/apply-patch+yaml m true"},
		{func() (*unstructured.Unstructured, error) { return client.CreateByPost(t.Context(), o, "m") }, "POST application/json m "},
		{func() (*unstructured.Unstructured, error) { return client.Update(t.Context(), o, o.GetUID(), "m") }, "PATCH application/apply-patch+yaml m true"},
		{func() (*unstructured.Unstructured, error) {
			return client.Contribute(t.Context(), o, o.GetUID(), kube.Contributor{Manager: "m"})
		}, "PATCH application/apply-patch+yaml m false"},
		{func() (*unstructured.Unstructured, error) { return client.Replace(t.Context(), o, "m") }, "PUT application/json m "},
		{func() (*unstructured.Unstructured, error) {
			return client.WriteStatus(t.Context(), o, map[string]any{"a": "b"}, "m")
		}, "PUT application/json m "},
		{func() (*unstructured.Unstructured, error) { return client.Patch(t.Context(), o, map[string]any{}, "m") }, "PATCH application/merge-patch+json m "},
		{func() (*unstructured.Unstructured, error) {
			return client.RemoveFinalizers(t.Context(), o, nil, "m")
		}, "PATCH application/json-patch+json m "},
	} {
		sent = nil
		got, err := c.write()
		if err != nil || got.GetName() != "x" {
			t.Errorf("%s: %v, %v", c.want, got, err)
		}
		if want := c.want + " " + metav1.FieldValidationIgnore; len(sent) != 1 || sent[0] != want {
			t.Errorf("the requests are %q; want %q", sent, want)
		}
	}
}
