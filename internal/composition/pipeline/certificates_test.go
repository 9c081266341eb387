package pipeline_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/testkit/certificate"
)

func newAuthority(t *testing.T) *certificate.Authority {
	t.Helper()
	a, err := certificate.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// identity is what an authority certifies, and who believes another.
func identity(t *testing.T, by, believes *certificate.Authority) pipeline.Identity {
	t.Helper()
	own, key, err := by.Issue("function.example", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return pipeline.Identity{CA: believes.PEM, Certificate: own, Key: key}
}

// write puts an identity where Directory and MutualTLS look for it.
func write(t *testing.T, directory string, i pipeline.Identity) {
	t.Helper()
	for name, data := range map[string][]byte{"ca.crt": i.CA, "tls.crt": i.Certificate, "tls.key": i.Key} {
		if err := os.WriteFile(filepath.Join(directory, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
