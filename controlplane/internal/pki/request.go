package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"slices"
)

// serverRequest is the template of a server certificate for all names of the loopback interface,
// and for the names of the API inside a cluster.
func serverRequest() *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
}

// adminRequest is the template of a client certificate in the group system:masters, which may do
// everything.
func adminRequest() *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// webhooksRequest is the template of the client certificate that the API server presents to admission
// webhooks; embedded.WebhookClientName is its name. As a client of the API server it is a user without
// groups, who may do nothing.
func webhooksRequest() *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "espalier-controlplane-webhooks"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// covers reports whether cert has the subject, usages and names of request.
func covers(cert, request *x509.Certificate) bool {
	return cert.Subject.String() == request.Subject.String() &&
		slices.Equal(cert.ExtKeyUsage, request.ExtKeyUsage) &&
		slices.Equal(cert.DNSNames, request.DNSNames) &&
		slices.EqualFunc(cert.IPAddresses, request.IPAddresses, net.IP.Equal)
}
