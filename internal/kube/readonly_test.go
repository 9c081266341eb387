package kube_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube"
)

func TestReadOnlyRequests(t *testing.T) {
	var received []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received = append(received, r.Method+" "+r.URL.Path) }))
	t.Cleanup(server.Close)
	client, err := rest.HTTPClientFor(kube.RefuseWrites(&rest.Config{Host: server.URL}))
	if err != nil {
		t.Fatal(err)
	}
	for request, writes := range map[string]bool{
		"GET /api/v1/pods": false, "POST /api/v1/namespaces/a/pods": true, "PATCH /api/v1/namespaces/a/pods/b": true,
		"PUT /apis/example.org/v1/things/a/status": true, "DELETE /api/v1/namespaces/a/pods/b": true,
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews": false,
	} {
		for _, ctx := range []context.Context{t.Context(), kube.ReadOnly(t.Context())} {
			received = nil
			method, path, _ := strings.Cut(request, " ")
			r, err := http.NewRequestWithContext(ctx, method, server.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(r)
			if err == nil {
				_ = answer.Body.Close()
			}
			refused := writes && !kube.MayWrite(ctx)
			if errors.Is(err, kube.ErrReadOnly) != refused || (len(received) == 0) != refused {
				t.Errorf("%s (may write: %t): the error is %v, received %v", request, kube.MayWrite(ctx), err, received)
			}
		}
	}
}
