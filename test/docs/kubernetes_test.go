package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/kube/builtin"
)

// TestTheTestedVersionsBeginWithTheEmbeddedOne compares the table of docs/install.md with the version of the embedded API server.
func TestTheTestedVersionsBeginWithTheEmbeddedOne(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "docs/install.md"))
	if err != nil {
		t.Fatal(err)
	}
	info, found := builtin.Lookup(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if !found {
		t.Fatal("ConfigMap is not built in")
	}
	version := strings.TrimPrefix(info.Revision, "v")
	minor := version[:strings.LastIndex(version, ".")]
	want := fmt.Sprintf("| Kubernetes | tested | what differs |\n|---|---|---|\n| %s | %s, which", minor, version)
	if !strings.Contains(string(raw), want) {
		t.Errorf("docs/install.md does not contain\n%s", want)
	}
	if offline := fmt.Sprintf("know the kinds of %s.", version); !strings.Contains(string(raw), offline) {
		t.Errorf("docs/install.md does not contain %q", offline)
	}
}
