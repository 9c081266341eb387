// Package packages tests that packages are installed from a registry, on a real API server. The registry is in this process. A
// stand-in for the kubelet and for the controller of Deployments runs the images of pods as processes, and one for the DNS of a
// cluster answers with their addresses, so health, mutual TLS and Services by name are real.
package packages

import (
	"context"
	"io"
	"log"
	"net"
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// answer is the variable that makes this program a function, which answers with the value.
const answer = "ESPALIER_TEST_ANSWER"

func TestMain(m *testing.M) {
	if text := os.Getenv(answer); text != "" {
		function.Main(func(_ context.Context, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			response := function.To(r)
			response.Results = append(response.Results, &fnv1.Result{Severity: fnv1.Severity_SEVERITY_NORMAL, Message: text})
			return response, nil
		})
		return
	}
	if kind := os.Getenv(serves); kind != "" {
		log.Fatal(serve(kind))
	}
	manager.NewLogger(io.Discard, manager.LogText, 0) // before anything runs that would log
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: names.dial}
	os.Exit(testkit.Main(m))
}
