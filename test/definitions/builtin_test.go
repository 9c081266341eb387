package definitions

import (
	"bytes"
	"os"
	"testing"

	"k8s.io/client-go/discovery"

	"github.com/espalier-dev/espalier/internal/kube/builtin"
	"github.com/espalier-dev/espalier/internal/kube/builtin/snapshot"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestBuiltInKindsAreThoseOfTheAPIServer compares what is known of Kubernetes without a cluster with the API server.
func TestBuiltInKindsAreThoseOfTheAPIServer(t *testing.T) {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		t.Skipf("the API server is the one in %s, which may have another version", assets)
	}
	client, err := discovery.NewDiscoveryClientForConfig(testkit.ExclusiveServer(t))
	if err != nil {
		t.Fatal(err)
	}
	want, err := snapshot.Read(client)
	if err != nil {
		t.Fatal(err)
	}
	got, err := builtin.Files()
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if !bytes.Equal(got[name], want[name]) {
			t.Errorf("%s differs; run 'make builtin-kinds'", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d files, and should be %d", len(got), len(want))
	}
	for _, kind := range builtin.Kinds() {
		if info, ok := builtin.Lookup(kind.GroupVersionKind()); !ok || info.Schema == nil {
			t.Errorf("%s has no schema", kind.GroupVersionKind())
		}
	}
}
