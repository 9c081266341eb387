package functions

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/testkit/certificate"
	"github.com/espalier-dev/espalier/sdk/function"
)

// identity is what an authority certifies, which it believes.
func identity(t *testing.T, by *certificate.Authority) pipeline.Identity {
	t.Helper()
	own, key, err := by.Issue("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return pipeline.Identity{CA: by.PEM, Certificate: own, Key: key}
}

// serving serves a function with a certificate, for clients with a certificate of the same authority.
func serving(t *testing.T, i pipeline.Identity) function.Option {
	t.Helper()
	directory := t.TempDir()
	for name, data := range map[string][]byte{"ca.crt": i.CA, "tls.crt": i.Certificate, "tls.key": i.Key} {
		if err := os.WriteFile(filepath.Join(directory, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := function.MutualTLS(directory)
	if err != nil {
		t.Fatal(err)
	}
	return function.WithTLS(config)
}
