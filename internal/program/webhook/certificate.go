package webhook

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// validity is how long a certificate is valid, and renewBefore how long before its end it is
// replaced. Its certificate authority signs nothing else.
const (
	validity    = 90 * 24 * time.Hour
	renewBefore = validity / 3
	clockSkew   = time.Hour // of clocks
)

// Pair is a certificate with its key and its certificate authorities; all in PEM.
type Pair struct {
	// Authorities are the certificate's and its predecessor's, which other processes may still use.
	Authorities []byte
	Certificate []byte
	Key         []byte
}

// issue creates a certificate for the given names or addresses, signed by a new authority.
func issue(hosts []string, before []byte, now time.Time) (Pair, error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	authority, err := template("espalier webhook authority", now)
	if err != nil {
		return Pair{}, err
	}
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	own, err := template("espalier webhook", now)
	if err != nil {
		return Pair{}, err
	}
	own.KeyUsage, own.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			own.IPAddresses = append(own.IPAddresses, ip)
		} else {
			own.DNSNames = append(own.DNSNames, host)
		}
	}
	signed, err := sign(authority, authority, authorityKey, authorityKey)
	if err != nil {
		return Pair{}, err
	}
	certificate, err := sign(own, authority, key, authorityKey)
	if err != nil {
		return Pair{}, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	first, _ := pem.Decode(before)
	if first != nil {
		signed = append(signed, pem.EncodeToMemory(first)...)
	}
	return Pair{Authorities: signed, Certificate: certificate, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})}, nil
}

func template(name string, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, SerialNumber: serial.Text(36)},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(validity),
	}, nil
}

func sign(what, by *x509.Certificate, key, with crypto.Signer) ([]byte, error) {
	raw, err := x509.CreateCertificate(rand.Reader, what, by, key.Public(), with)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), nil
}

// load parses the pair. It returns an error if the certificate is for other hosts or not
// signed by its authority, and errExpiring if it has to be renewed.
func (p Pair) load(hosts []string, now time.Time) (tls.Certificate, error) {
	certificate, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		return certificate, err
	}
	if certificate.Leaf, err = x509.ParseCertificate(certificate.Certificate[0]); err != nil {
		return certificate, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.Authorities)
	for _, host := range hosts {
		if _, err := certificate.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now}); err != nil {
			return certificate, fmt.Errorf("the certificate is not for %s: %w", host, err)
		}
	}
	if !certificate.Leaf.NotAfter.Add(-renewBefore).After(now) {
		return certificate, errExpiring
	}
	return certificate, nil
}

var errExpiring = errors.New("the certificate expires soon")
