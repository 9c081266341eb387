package account

import (
	"encoding/pem"
	"net/http"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit/proxy"
)

func TestAWSIsReachedThroughTheProxy(t *testing.T) {
	proxy.Behind(t, func(p *proxy.Proxy) {
		s := newService(t)
		p.ConnectTo(s.Listener.Addr().String())
		of := settings{CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))}
		transport, err := Options{}.newTransport(of)
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.com/?Action=GetCallerIdentity", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := newClient(of, transport).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if got := s.actions(); got != "GetCallerIdentity" {
			t.Errorf("got calls %s", got)
		}
		p.CheckHosts(t, "example.com:443")
	})
}
