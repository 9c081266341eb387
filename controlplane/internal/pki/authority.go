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
	authorityLife = 20 * 365 * 24 * time.Hour
	leafLife      = 5 * 365 * 24 * time.Hour

	// margin is how long a certificate must still be good to be kept at a start.
	margin = 90 * 24 * time.Hour

	// skew lets a certificate begin before now, for readers whose clock is a little behind.
	skew = time.Hour
)

// authority signs the certificates of one control plane.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// keepAuthority reads the authority of files, or makes a new one there.
func keepAuthority(files Pair, now time.Time) (authority, error) {
	if cert, key, err := readPair(files); err == nil && cert.IsCA && outlasts(cert, now) {
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
	cert, err := self.sign(template, key, now, authorityLife)
	if err != nil {
		return authority{}, err
	}
	return authority{cert, key}, writePair(files, cert, key)
}

// keep makes sure that files hold a certificate of this authority that does what request asks.
func (a authority) keep(files Pair, request *x509.Certificate, now time.Time) error {
	if cert, _, err := readPair(files); err == nil && a.signed(cert) && covers(cert, request) && outlasts(cert, now) {
		return nil
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	cert, err := a.sign(request, key, now, leafLife)
	if err != nil {
		return err
	}
	return writePair(files, cert, key)
}

func (a authority) signed(cert *x509.Certificate) bool {
	return cert.CheckSignatureFrom(a.cert) == nil
}

// sign returns the certificate that template describes, for key's holder and for life from now.
func (a authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey, now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = now.Add(-skew), now.Add(life)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func outlasts(cert *x509.Certificate, now time.Time) bool {
	return now.After(cert.NotBefore) && now.Add(margin).Before(cert.NotAfter)
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}
