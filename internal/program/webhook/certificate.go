package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/issuer"
)

// validity is how long a certificate is valid, and renewBefore how long before its end it is
// replaced. Its certificate authority signs nothing else.
const (
	validity    = 90 * 24 * time.Hour
	renewBefore = validity / 3
)

// Pair is a certificate with its key and its certificate authorities; all in PEM.
type Pair struct {
	// Authorities are the certificate's and its predecessor's, which other processes may still use.
	Authorities []byte
	Certificate []byte
	Key         []byte
}

func leaf(hosts []string) issuer.Leaf {
	return issuer.Leaf{Name: "espalier webhook", Hosts: hosts, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}

// issue creates a certificate for the given names or addresses, signed by a new authority.
func issue(hosts []string, before []byte, now time.Time) (Pair, error) {
	authority, err := issuer.NewAuthority("espalier webhook authority", validity, now)
	if err != nil {
		return Pair{}, err
	}
	p := Pair{Authorities: authority.Certificate}
	if p.Certificate, p.Key, err = authority.Issue(leaf(hosts), validity, now); err != nil {
		return Pair{}, err
	}
	if first, _ := pem.Decode(before); first != nil {
		p.Authorities = append(p.Authorities, pem.EncodeToMemory(first)...)
	}
	return p, nil
}

// load parses the pair. It returns an error if the certificate is for other hosts or not
// signed by its authority, and issuer.ErrExpiring if it has to be renewed.
func (p Pair) load(hosts []string, now time.Time) (tls.Certificate, error) {
	return issuer.Check(p.Certificate, p.Key, p.Authorities, leaf(hosts), now)
}
