package wire

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit/proxy"
)

func TestTheAPIServerIsReachedThroughTheProxy(t *testing.T) {
	proxy.Behind(t, func(p *proxy.Proxy) {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"}}`)
		}))
		t.Cleanup(server.Close)
		p.ConnectTo(server.Listener.Addr().String())
		authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		client, err := NewClient(&rest.Config{Host: "https://example.com:6443", TLSClientConfig: rest.TLSClientConfig{CAData: authority}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		o, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("b").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || o.GetName() != "a" {
			t.Errorf("got %v, %v", o, err)
		}
		p.CheckHosts(t, "example.com:6443")
	})
}
