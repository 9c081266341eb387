package pipeline_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/testkit/rpc"
	"github.com/espalier-dev/espalier/sdk/function"
)

func plain() credentials.TransportCredentials { return insecure.NewCredentials() }

// served is a function with a certificate of an authority, for those of another.
func served(t *testing.T, word string, i pipeline.Identity) string {
	t.Helper()
	directory := t.TempDir()
	write(t, directory, i)
	config, err := function.MutualTLS(directory)
	if err != nil {
		t.Fatal(err)
	}
	return rpc.Serve(t, saying(word), function.WithTLS(config))
}

func TestMutualTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	cases := map[string]struct {
		reason           string
		function, client pipeline.Identity
		serverName       string
		want             string // "" if it is called
	}{
		"Both are known to each other": {
			"", identity(t, ours, ours), identity(t, ours, ours), "", "",
		},
		"The function goes by another name": {
			"its certificate has it", identity(t, ours, ours), identity(t, ours, ours), "function.example", "",
		},
		"The function's certificate is of another authority": {
			"it is somebody else", identity(t, theirs, ours), identity(t, ours, ours), "", "certificate signed by unknown authority",
		},
		"The function's certificate has another name": {
			"it is another function", identity(t, ours, ours), identity(t, ours, ours), "other.example", "certificate is valid for function.example",
		},
		"Our certificate is of another authority": {
			"the function does not know us", identity(t, ours, ours), identity(t, theirs, ours), "", "Unavailable",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runner, _ := remote(t, pipeline.RemoteOptions{
				Endpoints:    &atlas{at: map[string]pipeline.Endpoint{"f": {Target: served(t, "yes", tc.function), ServerName: tc.serverName}}},
				Certificates: func() (pipeline.Identity, error) { return tc.client, nil },
			})
			_, err := runner.Run(t.Context(), "f", &request{})
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if call, ok := err.(*pipeline.CallError); !ok || call.Code != "Unavailable" || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: want %q, got %v", tc.reason, tc.want, err)
			}
		})
	}
}

func TestCertificatesAreExchangedUnderWay(t *testing.T) {
	old, next := newAuthority(t), newAuthority(t)
	directory := t.TempDir()
	write(t, directory, identity(t, old, old))
	places := &atlas{at: map[string]pipeline.Endpoint{"f": {Target: served(t, "old", identity(t, old, old))}}}
	runner, _ := remote(t, pipeline.RemoteOptions{Endpoints: places, Certificates: pipeline.CertificatesFromDirectory(directory)})
	want(t, runner, "old")
	write(t, directory, identity(t, next, next))
	places.set("f", pipeline.Endpoint{Target: served(t, "next", identity(t, next, next))})
	want(t, runner, "next")
}

// TestAFunctionServesItsRenewedCertificate renews the certificate of a running function, by an authority that the
// client does not know at first, as it does not accept an expired certificate.
func TestAFunctionServesItsRenewedCertificate(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	directory := t.TempDir()
	write(t, directory, identity(t, theirs, ours))
	config, err := function.MutualTLS(directory)
	if err != nil {
		t.Fatal(err)
	}
	at := rpc.Serve(t, saying("yes"), function.WithTLS(config))
	call := func() error {
		runner, _ := remote(t, pipeline.RemoteOptions{
			Endpoints:    &atlas{at: map[string]pipeline.Endpoint{"f": {Target: at}}},
			Certificates: func() (pipeline.Identity, error) { return identity(t, ours, ours), nil },
		})
		_, err := runner.Run(t.Context(), "f", &request{})
		return err
	}
	if call() == nil {
		t.Fatal("a function with a certificate of another authority is called")
	}
	write(t, directory, identity(t, ours, ours))
	if err := call(); err != nil {
		t.Errorf("the function serves its former certificate: %v", err)
	}
	write(t, directory, pipeline.Identity{})
	if err := call(); err != nil {
		t.Errorf("while its files are replaced, the function cannot be called: %v", err)
	}
}

// TestAConnectionThatFailedIsNotWaitedFor exchanges the certificates after a call has failed.
func TestAConnectionThatFailedIsNotWaitedFor(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	var client atomic.Pointer[pipeline.Identity]
	use := func(i pipeline.Identity) { client.Store(&i) }
	use(identity(t, theirs, ours))
	runner, r := remote(t, pipeline.RemoteOptions{
		Endpoints:    &atlas{at: map[string]pipeline.Endpoint{"f": {Target: served(t, "yes", identity(t, ours, ours))}}},
		Certificates: func() (pipeline.Identity, error) { return *client.Load(), nil },
	})
	if _, err := runner.Run(t.Context(), "f", &request{}); err == nil {
		t.Fatal("a client of another authority is answered")
	}
	use(identity(t, ours, ours))
	r.Reconnect("f", "never called")
	want(t, runner, "yes")
}

func TestInterceptableEndpointsAreRefused(t *testing.T) {
	cases := map[string]struct {
		endpoint pipeline.Endpoint
		refused  bool
	}{
		"No TLS to this machine":                   {pipeline.Endpoint{Target: "127.0.0.1:1", Insecure: true}, false},
		"No TLS to this machine by its other name": {pipeline.Endpoint{Target: "dns:///localhost:1", Insecure: true}, false},
		"No TLS to this machine by its newer name": {pipeline.Endpoint{Target: "[::1]:1", Insecure: true}, false},
		"No TLS to another machine":                {pipeline.Endpoint{Target: "192.0.2.1:1", Insecure: true}, true},
		"No TLS to a machine of a misleading name": {pipeline.Endpoint{Target: "localhost.example.org:1", Insecure: true}, true},
		"No TLS to a machine that poses as this":   {pipeline.Endpoint{Target: "127.0.0.1.example.org:1", Insecure: true}, true},
		"TLS without certificates":                 {pipeline.Endpoint{Target: "127.0.0.1:1"}, true},
		"No target":                                {pipeline.Endpoint{Insecure: true}, true},
		"No TLS to a unix socket":                  {pipeline.Endpoint{Target: "unix:/nowhere/at/all", Insecure: true}, false},
	}
	for name, tc := range cases {
		runner, _ := remote(t, pipeline.RemoteOptions{Endpoints: &atlas{at: map[string]pipeline.Endpoint{"f": tc.endpoint}}})
		_, err := runner.Run(t.Context(), "f", &request{})
		call, ok := err.(*pipeline.CallError)
		if !ok || (call.Code == "FailedPrecondition") != tc.refused {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAFunctionIsNotServedOpenlyByMistake(t *testing.T) {
	if err := function.Serve(t.Context(), nil, saying("x")); err == nil {
		t.Error("want it refused")
	}
	if _, err := function.MutualTLS(t.TempDir()); err == nil {
		t.Error("want certificates to be there")
	}
}
