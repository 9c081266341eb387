package kube_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube"
)

func TestOnlyWatchesAreNotCompressed(t *testing.T) {
	var accepted string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { accepted = r.Header.Get("Accept-Encoding") }))
	defer server.Close()
	original := &rest.Config{Host: server.URL}
	client, err := rest.HTTPClientFor(kube.PlainWatches(original))
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"?watch=true&resourceVersion=1": "identity", "?watch=1": "identity",
		"": "gzip", "?watch=false": "gzip", "?labelSelector=watch%3Dtrue": "gzip",
	} {
		response, err := client.Get(server.URL + "/api/v1/configmaps" + query)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if accepted != want {
			t.Errorf("%q accepts %q, not %q", query, accepted, want)
		}
	}
	if original.WrapTransport != nil {
		t.Error("the original configuration has changed")
	}
}
