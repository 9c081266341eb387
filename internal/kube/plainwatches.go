package kube

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// PlainWatches returns a copy of the configuration without compression of watches. The reader of a compressed stream
// takes 45 KiB for as long as the watch is open, and there are a few watches for each kind; an event is small. All
// other answers may still be compressed.
func PlainWatches(config *rest.Config) *rest.Config {
	plain := rest.CopyConfig(config)
	plain.Wrap(func(next http.RoundTripper) http.RoundTripper { return plainWatches{next} })
	return plain
}

type plainWatches struct{ next http.RoundTripper }

// RoundTrip makes a request.
func (p plainWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && r.Header.Get("Accept-Encoding") == "" && isWatch(r) {
		r = r.Clone(r.Context())
		r.Header.Set("Accept-Encoding", "identity") // otherwise net/http asks for gzip
	}
	return p.next.RoundTrip(r)
}

func isWatch(r *http.Request) bool {
	switch r.URL.Query().Get("watch") {
	case "true", "1":
		return true
	}
	return false
}
