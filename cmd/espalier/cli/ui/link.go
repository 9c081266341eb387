package ui

import (
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// link knows whether the API server answers. Watches do not say it: those that cannot connect begin again until they can.
type link struct{ lost atomic.Bool }

// observed returns a configuration whose requests tell whether they were answered.
func (l *link) observed(config *rest.Config) *rest.Config {
	out := rest.CopyConfig(config)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return &observedTransport{link: l, next: next} })
	return out
}

func (l *link) isReachable() bool { return !l.lost.Load() }

type observedTransport struct {
	link *link
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *observedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err == nil || r.Context().Err() == nil { // a request that was given up says nothing
		t.link.lost.Store(err != nil)
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *observedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
