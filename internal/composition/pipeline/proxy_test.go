package pipeline_test

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/testkit/proxy"
)

func TestFunctionsAreCalledThroughTheProxy(t *testing.T) {
	proxy.Behind(t, func(p *proxy.Proxy) {
		ours := newAuthority(t)
		p.ConnectTo(served(t, "yes", identity(t, ours, ours)))
		runner, _ := remote(t, pipeline.RemoteOptions{
			Endpoints:    &atlas{at: map[string]pipeline.Endpoint{"f": {Target: "dns:///function.example:9443"}}},
			Certificates: func() (pipeline.Identity, error) { return identity(t, ours, ours), nil },
		})
		want(t, runner, "yes")
		p.CheckHosts(t, "function.example:9443")
	})
}
