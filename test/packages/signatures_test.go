package packages

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
)

// sign stores a signature of an image as cosign does.
func (r *images) sign(t *testing.T, repository, digest string, key *ecdsa.PrivateKey) {
	t.Helper()
	text := []byte(`{"critical":{"identity":{"docker-reference":""},"image":{"docker-manifest-digest":"` + digest + `"},"type":"cosign container image signature"}}`)
	sum := sha256.Sum256(text)
	signed, err := key.Sign(rand.Reader, sum[:], nil)
	if err != nil {
		t.Fatal(err)
	}
	const kind = "application/vnd.dev.cosign.simplesigning.v1+json"
	image, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer: static.NewLayer(text, kind), MediaType: kind,
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signed)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.store(t, repository+":"+strings.ReplaceAll(digest, ":", "-")+".sig", image)
}

// TestPackagesWithoutTheWantedSignatureAreNotInstalled signs a package first by nobody, then by somebody else, and then as an
// ImageConfig wants it.
func TestPackagesWithoutTheWantedSignatureAreNotInstalled(t *testing.T) {
	w := newWorld(t)
	w.start(t, w.config)
	var keys []*ecdsa.PrivateKey
	for range 2 {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	der, err := x509.MarshalPKIXPublicKey(keys[0].Public())
	if err != nil {
		t.Fatal(err)
	}
	public := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	w.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: cosign, namespace: %s}, data: {cosign.pub: %s}}", w.namespace, public))
	w.Apply(t, fmt.Sprintf(`{apiVersion: pkg.crossplane.io/v1beta1, kind: ImageConfig, metadata: {name: signed}, spec: {matchImages: [{prefix: %s/org/signed}],
  verification: {provider: Cosign, cosign: {authorities: [{name: team, key: {secretRef: {name: cosign, key: cosign.pub}, hashAlgorithm: sha256}}]}}}}`, w.host))
	digest := w.push(t, "org/signed:v1.0.0", nil, w.meta("Configuration", "signed"), definition("Signed"))

	refused := hasConditions("Installed", "False", "no valid signature of "+digest+" by team")
	w.install(t, "Configuration", "signed", "org/signed:v1.0.0")
	w.Await(t, configurationKind, "", "signed", refused)
	w.sign(t, "org/signed", digest, keys[1])
	w.Await(t, configurationKind, "", "signed", hasConditions("Installed", "False", "by team: the registry has 1 signatures"))
	if o := w.Get(t, definitionKind, "", "signeds.packages.example.org"); o != nil {
		t.Error("a package without the wanted signature has installed an object")
	}
	w.sign(t, "org/signed", digest, keys[0])
	w.Await(t, configurationKind, "", "signed", healthy)
}
