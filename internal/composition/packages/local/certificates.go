package local

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
)

// certificateLifetime is longer than a run of the program, which makes new ones with each start.
const certificateLifetime = 5 * 365 * 24 * time.Hour

// authority signs the certificates of one run of this program. Its key is only in memory.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	client      pipeline.Identity
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := newTemplate("espalier functions")
	template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key}
	if a.certificate, err = x509.ParseCertificate(raw); err != nil {
		return nil, err
	}
	a.client, err = a.issue("espalier", x509.ExtKeyUsageClientAuth)
	return a, err
}

func newTemplate(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes([]byte(rand.Text())[:16]), Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLifetime),
	}
}

// issue returns a certificate for one use: a function's certificate is not accepted from a client, nor under another name.
func (a *authority) issue(name string, use x509.ExtKeyUsage) (pipeline.Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pipeline.Identity{}, err
	}
	template := newTemplate(name)
	template.DNSNames, template.KeyUsage, template.ExtKeyUsage = []string{name}, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{use}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return pipeline.Identity{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pipeline.Identity{}, err
	}
	return pipeline.Identity{
		CA:          pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}),
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

// write writes the certificate of a function to a directory, as it is mounted in a pod.
func writeIdentity(i pipeline.Identity, dir string) error {
	for name, data := range map[string][]byte{"ca.crt": i.CA, "tls.crt": i.Certificate, "tls.key": i.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
