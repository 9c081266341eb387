// Package initial tests that the API server gives instances their finalizer and inventory when they
// are created.
package initial

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) {
	administrator := &rest.Config{Impersonate: rest.ImpersonationConfig{UserName: "initial", Groups: []string{"system:masters"}}}
	os.Exit(suite.Main(m, server.Options{Config: administrator, InitialMetadata: true, AdmissionPolicies: true}, nil))
}
