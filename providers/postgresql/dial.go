package postgresql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
)

// longestMessage bounds what a server can make this program keep at once.
const longestMessage = 16 << 20

// connectTimeout is how long a server may take to answer at all.
const connectTimeout = 10 * time.Second

// nothing is what a connection is prepared of, to be filled in. It says all that would
// be taken from this program's environment otherwise, and could be such that it can't
// be read.
const nothing = "host=localhost user=nobody sslmode=disable sslnegotiation=postgres connect_timeout=10 target_session_attrs=any " +
	"channel_binding=prefer require_auth='' min_protocol_version=3.0 max_protocol_version=3.0"

// dialled is how to connect to one database of the server. Nothing of it comes from
// this program's environment.
func (s server) dialled(database string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(nothing)
	if err != nil {
		return nil, fmt.Errorf("prepare a connection: %w", err)
	}
	if c.TLSConfig, err = s.tls(); err != nil {
		return nil, err
	}
	c.Host, c.Port, c.Database, c.User, c.Password = s.Host, s.Port, database, s.User, s.Password
	c.Fallbacks, c.ValidateConnect, c.AfterConnect, c.ConnectTimeout = nil, nil, nil, connectTimeout
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		f.SetMaxBodyLen(longestMessage)
		return f
	}
	if s.Away {
		c.DialFunc = (&net.Dialer{Control: elsewhere}).DialContext
	}
	c.KerberosSrvName, c.KerberosSpn, c.ChannelBinding = "", "", "prefer"
	if c.TLSConfig == nil && !strings.HasPrefix(s.Host, "/") {
		c.RequireAuth = "!password" // whoever is on the way, or in the server's place, could ask for it
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.RuntimeParams = map[string]string{
		"application_name": "espalier", "client_encoding": "UTF8", "standard_conforming_strings": "on",
		// What others have put into a database must not be found in place of what is
		// meant: these statements may be a superuser's.
		"search_path": "pg_catalog",
		// A database's owner says what sessions in it begin with; what is said here
		// comes before that.
		"default_transaction_read_only": "off", "default_transaction_isolation": "read committed",
		"statement_timeout": strconv.FormatInt(s.Timeout.Milliseconds(), 10),
		"lock_timeout":      strconv.FormatInt((s.Timeout / 2).Milliseconds(), 10),
	}
	return c, nil
}

// elsewhere refuses a connection to this machine: what listens on a socket or on
// loopback often asks nobody for a password, since who comes that way is on the
// machine already. It is asked with the address that is connected to, whatever name
// has led there.
func elsewhere(network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	ip := to.Addr().Unmap()
	if err == nil && strings.HasPrefix(network, "tcp") && !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsLinkLocalUnicast() && !ip.IsMulticast() {
		return nil
	}
	return errors.New("a ProviderConfig's server can't be on the machine on which Espalier runs, unless that was started with --postgresql-local-servers; a ClusterProviderConfig's can")
}

// tls is what is asked of the connection; nil for none.
func (s server) tls() (*tls.Config, error) {
	if s.TLS == v1alpha1.TLSDisable || strings.HasPrefix(s.Host, "/") {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.ServerName}
	if s.CA != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(s.CA)) {
			return nil, errors.New("spec.tls.caSecretRef: there is no certificate in it")
		}
	}
	if s.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(s.Cert), []byte(s.Key))
		if err != nil {
			return nil, errors.New("spec.tls.clientCertificateSecretRef: certificate and key don't fit each other, or can't be read")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	switch s.TLS {
	case v1alpha1.TLSRequire:
		c.InsecureSkipVerify = true
	case v1alpha1.TLSVerifyCA:
		c.InsecureSkipVerify = true // of the name alone: see below
		c.VerifyConnection = func(state tls.ConnectionState) error { return chained(state, c.RootCAs) }
	default:
	}
	return c, nil
}

// chained checks a server's certificate against authorities, whatever its name is.
func chained(state tls.ConnectionState, roots *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server has shown no certificate")
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(options)
	return err
}

// dial connects to one database.
func (s server) dial(ctx context.Context, database string) (*pgx.Conn, error) {
	c, err := s.dialled(database)
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, c)
}
