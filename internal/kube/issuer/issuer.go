// Package issuer issues certificates for connections within a cluster.
package issuer

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
	"slices"
	"time"
)

// clockSkew is by how much clocks may differ.
const clockSkew = time.Hour

// Authority signs certificates.
type Authority struct {
	// Certificate and Key are in PEM.
	Certificate, Key []byte

	parsed *x509.Certificate
	signer crypto.Signer
}

// NewAuthority creates an authority.
func NewAuthority(name string, validity time.Duration, now time.Time) (Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Authority{}, err
	}
	own, err := template(name, validity, now)
	if err != nil {
		return Authority{}, err
	}
	own.IsCA, own.BasicConstraintsValid, own.KeyUsage = true, true, x509.KeyUsageCertSign
	signed, err := sign(own, own, key, key)
	if err != nil {
		return Authority{}, err
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return Authority{}, err
	}
	return ReadAuthority(signed, encoded)
}

// ReadAuthority parses an authority.
func ReadAuthority(certificate, key []byte) (Authority, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return Authority{}, err
	}
	parsed, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return Authority{}, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !parsed.IsCA {
		return Authority{}, errors.New("it is not the certificate of an authority")
	}
	return Authority{Certificate: certificate, Key: key, parsed: parsed, signer: signer}, nil
}

// Since and Until are the period in which the authority's certificate is valid.
func (a Authority) Since() time.Time { return a.parsed.NotBefore.Add(clockSkew) }

// Until is the end of that period.
func (a Authority) Until() time.Time { return a.parsed.NotAfter }

// Leaf is what a certificate is for.
type Leaf struct {
	Name string
	// Hosts are names and addresses.
	Hosts []string
	Usage []x509.ExtKeyUsage
}

// Issue creates a certificate with its key, both in PEM.
func (a Authority) Issue(l Leaf, validity time.Duration, now time.Time) (certificate, key []byte, err error) {
	generated, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	own, err := template(l.Name, validity, now)
	if err != nil {
		return nil, nil, err
	}
	own.KeyUsage, own.ExtKeyUsage = x509.KeyUsageDigitalSignature, l.Usage
	for _, host := range l.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			own.IPAddresses = append(own.IPAddresses, ip)
		} else {
			own.DNSNames = append(own.DNSNames, host)
		}
	}
	if certificate, err = sign(own, a.parsed, generated, a.signer); err != nil {
		return nil, nil, err
	}
	key, err = encodeKey(generated)
	return certificate, key, err
}

// Check parses a certificate. It returns an error if that is not for all of the usages or, of a server, of the hosts, or not signed by one of the
// authorities, and ErrExpiring if a third of its validity is left.
func Check(certificate, key, authorities []byte, l Leaf, now time.Time) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return pair, err
	}
	if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		return pair, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	for _, usage := range l.Usage {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			return pair, err
		}
	}
	hosts := l.Hosts
	if !slices.Contains(l.Usage, x509.ExtKeyUsageServerAuth) {
		hosts = nil // servers do not verify the names of clients
	}
	for _, host := range hosts {
		if err := pair.Leaf.VerifyHostname(host); err != nil {
			return pair, fmt.Errorf("the certificate is not for %s: %w", host, err)
		}
	}
	if !RenewalOf(pair.Leaf).After(now) {
		return pair, ErrExpiring
	}
	return pair, nil
}

// RenewalOf is when a certificate is replaced: when a third of its validity is left.
func RenewalOf(c *x509.Certificate) time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore.Add(clockSkew)) / 3)
}

// ErrExpiring is the error of a valid certificate that has to be replaced.
var ErrExpiring = errors.New("the certificate expires soon")

func template(name string, validity time.Duration, now time.Time) (*x509.Certificate, error) {
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

func encodeKey(key crypto.Signer) ([]byte, error) {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}
