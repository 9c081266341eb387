package pipeline

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc/credentials"
)

// Identity is the client certificate for calls of functions, with the CAs that functions'
// certificates are verified against; all PEM.
type Identity struct {
	// CA are the certificates of the authorities that sign the functions' certificates.
	CA []byte
	// Certificate and Key are the client's.
	Certificate, Key []byte
}

// Certificates returns the identity to connect with. It is called for each TLS handshake, so certificates can be
// rotated without a restart.
type Certificates func() (Identity, error)

// CertificatesFromDirectory reads ca.crt, tls.crt and tls.key from a directory, as in a mounted Secret, for each
// connection.
func CertificatesFromDirectory(path string) Certificates {
	return func() (Identity, error) {
		var identity Identity
		for name, to := range map[string]*[]byte{
			"ca.crt":  &identity.CA,
			"tls.crt": &identity.Certificate,
			"tls.key": &identity.Key,
		} {
			data, err := os.ReadFile(filepath.Join(path, name))
			if err != nil {
				return Identity{}, err
			}
			*to = data
		}
		return identity, nil
	}
}

var errNoCACertificate = errors.New("no CA certificate")

func (i Identity) tlsConfig() (*tls.Config, error) {
	own, err := tls.X509KeyPair(i.Certificate, i.Key)
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(i.CA) {
		return nil, errNoCACertificate
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, RootCAs: authorities}, nil
}

// mutualTLS is gRPC transport credentials that read the certificates for each handshake.
type mutualTLS struct {
	certificates Certificates
	serverName   string
}

func (m *mutualTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	identity, err := m.certificates()
	if err != nil {
		return nil, nil, fmt.Errorf("certificates for functions: %w", err)
	}
	config, err := identity.tlsConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("certificates for functions: %w", err)
	}
	config.ServerName = m.serverName
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, raw)
}

func (m *mutualTLS) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.ErrUnsupported
}

func (m *mutualTLS) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls", ServerName: m.serverName}
}

func (m *mutualTLS) Clone() credentials.TransportCredentials {
	c := *m
	return &c
}

func (m *mutualTLS) OverrideServerName(name string) error {
	m.serverName = name
	return nil
}
