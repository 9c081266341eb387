package cloud

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// outputs is what the cloud adds to a resource that is ACTIVE. It is a function of the
// resource: after a repair it is what it was.
func outputs(r row) Outputs {
	out := Outputs{Objects: r.Outputs.Objects}
	switch r.Type {
	case TypeCluster:
		out.Endpoint = "https://" + host(r.Key)
		out.Certificate = certificate(r)
	case TypeBucket:
		out.URL = "https://" + host(r.Key)
	default: // the ID says it all
	}
	return out
}

// host is the name that a resource would have in the net: "logs.bucket.dev.eu-north-1
// .sandbox.internal". The domain is one that the net never resolves.
func host(k Key) string {
	scope := strings.Split(k.Scope, "/")
	slices.Reverse(scope)
	return strings.Join(append([]string{k.ID, string(k.Type)}, append(scope, "sandbox.internal")...), ".")
}

// certificate is one that the resource has signed for itself, valid for ten years; the
// same every time.
func certificate(r row) string {
	seed := sha256.Sum256(fmt.Appendf(nil, "%s %d", r.Key, r.Serial))
	key := ed25519.NewKeyFromSeed(seed[:])
	made := r.Created.Truncate(time.Second)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(r.Serial), Subject: pkix.Name{CommonName: r.ID}, DNSNames: []string{host(r.Key)},
		NotBefore: made, NotAfter: made.AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return "" // only times that X.509 can't write down get here
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
