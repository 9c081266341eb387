package kube

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// ErrReadOnly is the error of writes with a context of ReadOnly.
var ErrReadOnly = errors.New("another installation of the controllers writes this object")

type readOnlyKey struct{}

// ReadOnly returns a context for requests that must not write: with clients of a configuration from RefuseWrites, they
// fail with ErrReadOnly.
func ReadOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, readOnlyKey{}, true)
}

// MayWrite reports whether requests with this context may write.
func MayWrite(ctx context.Context) bool { return ctx.Value(readOnlyKey{}) == nil }

// RefuseWrites returns a configuration for clients that refuse writes with a context of ReadOnly.
func RefuseWrites(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusesWrites{next} })
	return config
}

type refusesWrites struct{ next http.RoundTripper }

func (t refusesWrites) RoundTrip(r *http.Request) (*http.Response, error) {
	if !MayWrite(r.Context()) && writes(r) {
		return nil, ErrReadOnly
	}
	return t.next.RoundTrip(r)
}

// writes reports whether a request changes something. Reviews of permissions and of tokens are posted, and change nothing.
func writes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	case http.MethodPost:
		return !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/") && !strings.HasPrefix(r.URL.Path, "/apis/authentication.k8s.io/")
	}
	return true
}
