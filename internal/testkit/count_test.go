package testkit

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type failingTransport struct{}

func (failingTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, http.ErrHandlerTimeout
}

func TestRequestsAreCountedByVerbAndResource(t *testing.T) {
	var c Counter
	transport := c.WrapTransport(failingTransport{})
	send := func(method, url string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "https://server"+url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transport.RoundTrip(r); err == nil { //nolint:bodyclose // there is no response
			t.Fatal("there is a response")
		}
	}
	send("GET", "/api/v1/namespaces/a/configmaps?limit=500")
	before := c.Snapshot()
	send("GET", "/api/v1/namespaces/a/configmaps/b")
	send("GET", "/api/v1/configmaps?watch=true")
	send("GET", "/api/v1/namespaces/a")
	send("PUT", "/apis/g/v1/namespaces/a/tops/x/status")
	send("POST", "/apis/events.k8s.io/v1/namespaces/a/events")
	send("PATCH", "/apis/g/v1/wides/x")
	send("GET", "/apis")
	got := c.Since(before)
	if diff := cmp.Diff("1 GET /apis, 1 GET configmaps, 1 GET namespaces, 1 PATCH wides, 1 PUT tops/status", got.String()); diff != "" || got.Total != 5 {
		t.Errorf("%d in all (-want +got):\n%s", got.Total, diff)
	}
}
