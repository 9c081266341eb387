package kube

import (
	"context"
	"net/http"

	"k8s.io/client-go/rest"
)

// CountRequests returns a copy of the configuration that calls count for each request, with its context. It is called
// concurrently, and must not block.
func CountRequests(config *rest.Config, count func(context.Context)) *rest.Config {
	counted := rest.CopyConfig(config)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper { return requestCounter{next, count} })
	return counted
}

type requestCounter struct {
	next  http.RoundTripper
	count func(context.Context)
}

// RoundTrip makes a request.
func (c requestCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count(r.Context())
	return c.next.RoundTrip(r)
}
