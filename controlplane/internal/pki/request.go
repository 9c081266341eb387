package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"slices"
)

// serverRequest asks for a server certificate that is good for every name of the loopback
// interface, and for the names under which programs inside a cluster know the API.
func serverRequest() *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
}

// adminRequest asks for a client certificate that the API server's authorizers let do anything.
func adminRequest() *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// covers reports whether cert already has the subject, purposes and names that request asks for.
func covers(cert, request *x509.Certificate) bool {
	return cert.Subject.String() == request.Subject.String() &&
		slices.Equal(cert.ExtKeyUsage, request.ExtKeyUsage) &&
		slices.Equal(cert.DNSNames, request.DNSNames) &&
		slices.EqualFunc(cert.IPAddresses, request.IPAddresses, net.IP.Equal)
}
