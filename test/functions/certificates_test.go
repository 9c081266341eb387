package functions

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/pipeline"
	"github.com/espalier-dev/espalier/sdk/function"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	text        []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.text, a.key = sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	block, _ := pem.Decode(a.text)
	var err error
	if a.certificate, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return a
}

// identity is somebody of whom the authority says who it is.
func (a *authority) identity(t *testing.T) pipeline.Identity {
	t.Helper()
	certificate, key := sign(t, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a)
	data, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pipeline.Identity{Authorities: a.text, Certificate: certificate, Key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: data})}
}

// serving serves to those of whom the authority says who they are.
func (a *authority) serving(t *testing.T) function.Option {
	t.Helper()
	i, directory := a.identity(t), t.TempDir()
	for name, data := range map[string][]byte{"ca.crt": i.Authorities, "tls.crt": i.Certificate, "tls.key": i.Key} {
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

// sign makes a certificate that is valid for a day; without an authority, its own.
func sign(t *testing.T, template *x509.Certificate, by *authority) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: "test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}
