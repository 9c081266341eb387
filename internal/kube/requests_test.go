package kube_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube"
)

func TestRequestsAreCountedWithTheirContexts(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	type key struct{}
	counted := map[any]int{}
	original := &rest.Config{Host: server.URL}
	client, err := rest.HTTPClientFor(kube.CountRequests(original, func(ctx context.Context) { counted[ctx.Value(key{})]++ }))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{"a", "b", "a"} {
		request, err := http.NewRequestWithContext(context.WithValue(t.Context(), key{}, of), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	if counted["a"] != 2 || counted["b"] != 1 || original.WrapTransport != nil {
		t.Errorf("counted %v", counted)
	}
}
