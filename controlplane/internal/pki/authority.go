package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"time"
)

const (
	authorityValidity = 20 * 365 * 24 * time.Hour
	leafValidity      = 5 * 365 * 24 * time.Hour

	// renewBefore is how long a certificate must still be valid at a start; otherwise it is renewed.
	renewBefore = 90 * 24 * time.Hour

	// skew makes a certificate valid before now, for clients whose clock is a little behind.
	skew = time.Hour
)

// authority signs the certificates of one control plane.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// loadOrCreateAuthority reads the authority from files, or creates one there.
func loadOrCreateAuthority(files Pair, now time.Time) (authority, error) {
	if cert, key, err := readPair(files); err == nil && cert.IsCA && isCurrent(cert, now) {
		return authority{cert, key}, nil
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "espalier-controlplane"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	key, err := newKey()
	if err != nil {
		return authority{}, err
	}
	self := authority{template, key}
	cert, err := self.sign(template, key, now, authorityValidity)
	if err != nil {
		return authority{}, err
	}
	return authority{cert, key}, writePair(files, cert, key)
}

// ensure writes a certificate of this authority to files, unless they have one that covers request and
// does not expire soon.
func (a authority) ensure(files Pair, request *x509.Certificate, now time.Time) error {
	if cert, _, err := readPair(files); err == nil && a.signed(cert) && covers(cert, request) && isCurrent(cert, now) {
		return nil
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	cert, err := a.sign(request, key, now, leafValidity)
	if err != nil {
		return err
	}
	return writePair(files, cert, key)
}

func (a authority) signed(cert *x509.Certificate) bool {
	return cert.CheckSignatureFrom(a.cert) == nil
}

// sign returns a certificate of template for key, valid from now for the given time.
func (a authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey, now time.Time, validity time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = now.Add(-skew), now.Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func isCurrent(cert *x509.Certificate, now time.Time) bool {
	return now.After(cert.NotBefore) && now.Add(renewBefore).Before(cert.NotAfter)
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}
