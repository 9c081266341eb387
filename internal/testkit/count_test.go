package testkit

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrHandlerTimeout }

func TestRequestsAreCountedByVerbAndResource(t *testing.T) {
	var c Counter
	transport := c.Count(nowhere{})
	ask := func(method, url string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "https://server"+url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transport.RoundTrip(r); err == nil { //nolint:bodyclose // there is no answer
			t.Fatal("there was an answer")
		}
	}
	ask("GET", "/api/v1/namespaces/a/configmaps?limit=500")
	before := c.Now()
	ask("GET", "/api/v1/namespaces/a/configmaps/b")
	ask("GET", "/api/v1/configmaps?watch=true")
	ask("GET", "/api/v1/namespaces/a")
	ask("PUT", "/apis/g/v1/namespaces/a/tops/x/status")
	ask("POST", "/apis/events.k8s.io/v1/namespaces/a/events")
	ask("PATCH", "/apis/g/v1/wides/x")
	ask("GET", "/apis")
	got := c.Since(before)
	if diff := cmp.Diff("1 GET /apis, 1 GET configmaps, 1 GET namespaces, 1 PATCH wides, 1 PUT tops/status", got.String()); diff != "" || got.Total != 5 {
		t.Errorf("%d in all (-want +got):\n%s", got.Total, diff)
	}
}
