package fence_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube/fence"
)

func TestRequests(t *testing.T) {
	var received []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received = append(received, r.Method+" "+r.URL.Path) }))
	t.Cleanup(server.Close)
	client, err := rest.HTTPClientFor(fence.Wrap(&rest.Config{Host: server.URL}))
	if err != nil {
		t.Fatal(err)
	}
	forever := func() time.Time { return time.Time{} }
	ended := &fence.Tenure{Until: forever}
	ended.End()
	contexts := map[string]context.Context{
		"without a tenure":         t.Context(),
		"with a tenure":            fence.With(t.Context(), &fence.Tenure{Until: forever}),
		"before its end":           fence.With(t.Context(), &fence.Tenure{Until: func() time.Time { return time.Now().Add(time.Hour) }}),
		"after the time":           fence.With(t.Context(), &fence.Tenure{Until: func() time.Time { return time.Now().Add(-time.Second) }}),
		"after the end":            fence.With(t.Context(), ended),
		"read-only":                fence.ReadOnly(t.Context()),
		"read-only within another": fence.ReadOnly(fence.With(t.Context(), &fence.Tenure{Until: forever})),
	}
	for name, refused := range map[string]bool{
		"without a tenure": false, "with a tenure": false, "before its end": false,
		"after the time": true, "after the end": true, "read-only": true, "read-only within another": true,
	} {
		for request, write := range map[string]bool{
			"GET /api/v1/pods": false, "POST /api/v1/namespaces/a/pods": true, "PATCH /api/v1/namespaces/a/pods/b": true,
			"PUT /apis/example.org/v1/things/a/status": true, "DELETE /api/v1/namespaces/a/pods/b": true,
			"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews": false,
		} {
			received = nil
			method, path, _ := strings.Cut(request, " ")
			r, err := http.NewRequestWithContext(contexts[name], method, server.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(r)
			if err == nil {
				_ = answer.Body.Close()
			}
			if got := errors.Is(err, fence.ErrNotOwner); got != (refused && write) || len(received) == 0 != got {
				t.Errorf("%s: %s: the error is %v, received %v", name, request, err, received)
			}
		}
	}
}

func TestUntil(t *testing.T) {
	at := time.Now().Add(time.Hour)
	past := time.Unix(0, 0)
	ended := &fence.Tenure{}
	ended.End()
	for name, tt := range map[string]struct {
		ctx  context.Context
		want time.Time
	}{
		"without a tenure":      {t.Context(), past},
		"without an end":        {fence.With(t.Context(), &fence.Tenure{}), time.Time{}},
		"with no end by Until":  {fence.With(t.Context(), &fence.Tenure{Until: func() time.Time { return time.Time{} }}), time.Time{}},
		"before its end":        {fence.With(t.Context(), &fence.Tenure{Until: func() time.Time { return at }}), at},
		"after the end":         {fence.With(t.Context(), ended), past},
		"read-only in a tenure": {fence.ReadOnly(fence.With(t.Context(), &fence.Tenure{})), past},
	} {
		if got := fence.Until(tt.ctx); !got.Equal(tt.want) {
			t.Errorf("%s: %v; want %v", name, got, tt.want)
		}
	}
}
