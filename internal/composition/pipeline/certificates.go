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

// Identity is who we are to functions, and whose word we take for who they are; all PEM.
type Identity struct {
	// Authorities have signed the functions' certificates.
	Authorities []byte
	// Certificate and Key are our own.
	Certificate, Key []byte
}

// Certificates return the identity of the moment. They are asked for each connection,
// so that certificates can be exchanged under a program that runs.
type Certificates func() (Identity, error)

// Fixed certificates never change.
func Fixed(identity Identity) Certificates {
	return func() (Identity, error) { return identity, nil }
}

// Directory reads ca.crt, tls.crt and tls.key of a directory, as a mounted Secret has
// them.
func Directory(path string) Certificates {
	return func() (Identity, error) {
		var identity Identity
		for name, to := range map[string]*[]byte{
			"ca.crt":  &identity.Authorities,
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

var errNoAuthority = errors.New("no certificate of an authority")

// config is what a client of that identity needs.
func (i Identity) config() (*tls.Config, error) {
	own, err := tls.X509KeyPair(i.Certificate, i.Key)
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(i.Authorities) {
		return nil, errNoAuthority
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, RootCAs: authorities}, nil
}

// mutual are credentials that look at the certificates for each handshake.
type mutual struct {
	certificates Certificates
	serverName   string
}

func (m *mutual) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	identity, err := m.certificates()
	if err != nil {
		return nil, nil, fmt.Errorf("certificates for functions: %w", err)
	}
	config, err := identity.config()
	if err != nil {
		return nil, nil, fmt.Errorf("certificates for functions: %w", err)
	}
	config.ServerName = m.serverName
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, raw)
}

func (m *mutual) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.ErrUnsupported
}

func (m *mutual) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls", ServerName: m.serverName}
}

func (m *mutual) Clone() credentials.TransportCredentials {
	c := *m
	return &c
}

func (m *mutual) OverrideServerName(name string) error {
	m.serverName = name
	return nil
}
