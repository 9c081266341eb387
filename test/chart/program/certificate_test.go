package program

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit/certificate"
)

// TestTheWebhookServesACertificateOfCertManager mounts a certificate as cert-manager issues it. The
// program has no access to Secrets of its namespace, and is refused nothing.
func TestTheWebhookServesACertificateOfCertManager(t *testing.T) {
	r := connect(t)
	authority, err := certificate.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	public, key, err := authority.Issue("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	r.mounted = t.TempDir()
	for name, text := range map[string][]byte{"ca.crt": authority.PEM, "tls.crt": public, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(r.mounted, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.install(t, "webhook.certManager.enabled=true")
	_, stop := r.start(t, "espalier")
	hooks := schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}
	r.Await(t, hooks, "", "usages.espalier.dev", func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("there is none")
		}
		all, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
		if got, _, _ := unstructured.NestedString(all[0].(map[string]any), "clientConfig", "caBundle"); got != base64.StdEncoding.EncodeToString(authority.PEM) {
			return fmt.Errorf("another authority: %s", got)
		}
		return nil
	})
	if secret := r.Get(t, schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, r.NS, "espalier-webhook"); secret != nil {
		t.Error("the program has stored a certificate")
	}
	stop()
	r.nothingRefused(t)
}
