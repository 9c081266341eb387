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

// maxMessageSize limits the memory that a server can make this program use for a message.
const maxMessageSize = 16 << 20

// connectTimeout limits how long connecting may take.
const connectTimeout = 10 * time.Second

// baseConnString is what pgx parses before the fields are set. It has each parameter that pgx
// would otherwise read from environment variables, which could be invalid.
const baseConnString = "host=localhost user=nobody sslmode=disable sslnegotiation=postgres connect_timeout=10 target_session_attrs=any " +
	"channel_binding=prefer require_auth='' min_protocol_version=3.0 max_protocol_version=3.0"

// The connection is to one database. Nothing in it comes from environment variables.
func (s server) connConfig(database string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(baseConnString)
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
		f.SetMaxBodyLen(maxMessageSize)
		return f
	}
	if s.DenyLocal {
		c.DialFunc = (&net.Dialer{Control: denyLocal}).DialContext
	}
	c.KerberosSrvName, c.KerberosSpn, c.ChannelBinding = "", "", "prefer"
	if c.TLSConfig == nil && !strings.HasPrefix(s.Host, "/") {
		c.RequireAuth = "!password" // anybody in the network could request it in clear text
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.RuntimeParams = map[string]string{
		"application_name": "espalier", "client_encoding": "UTF8", "standard_conforming_strings": "on",
		// Objects that other users have created in a database must not shadow the server's: the statements may run as a
		// superuser.
		"search_path": "pg_catalog",
		// These override the defaults that the owner of a database can set.
		"default_transaction_read_only": "off", "default_transaction_isolation": "read committed",
		"statement_timeout": milliseconds(s.Timeout),
		"lock_timeout":      milliseconds(s.Timeout / 2),
	}
	return c, nil
}

// For the server, 0 is no limit.
func milliseconds(limit time.Duration) string {
	return strconv.FormatInt(max(1, limit.Milliseconds()), 10)
}

// denyLocal refuses connections to this machine: servers often require no password on a socket or on loopback. It is
// called with the resolved address, so a DNS name cannot evade it.
func denyLocal(network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	ip := to.Addr().Unmap()
	if err == nil && strings.HasPrefix(network, "tcp") && !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsLinkLocalUnicast() && !ip.IsMulticast() {
		return nil
	}
	return errors.New("a ProviderConfig cannot refer to a server on the machine on which Espalier runs: use a ClusterProviderConfig, or start Espalier with postgresql.localServers in its configuration")
}

// It is nil for a connection without TLS.
func (s server) tls() (*tls.Config, error) {
	if s.TLS == v1alpha1.TLSDisable || strings.HasPrefix(s.Host, "/") {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.ServerName}
	if s.CA != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(s.CA)) {
			return nil, errors.New("spec.tls.caSecretRef: the Secret has no valid certificate")
		}
	}
	if s.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(s.Cert), []byte(s.Key))
		if err != nil {
			return nil, errors.New("spec.tls.clientCertificateSecretRef: certificate and key are invalid, or do not match")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	switch s.TLS {
	case v1alpha1.TLSRequire:
		c.InsecureSkipVerify = true
	case v1alpha1.TLSVerifyCA:
		c.InsecureSkipVerify = true // VerifyConnection verifies all but the name
		c.VerifyConnection = func(state tls.ConnectionState) error { return verifyChain(state, c.RootCAs) }
	default:
	}
	return c, nil
}

// verifyChain verifies that a CA has signed the server's certificate, and not its name.
func verifyChain(state tls.ConnectionState, roots *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server has sent no certificate")
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(options)
	return err
}

func (s server) dial(ctx context.Context, database string) (*pgx.Conn, error) {
	c, err := s.connConfig(database)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := limitIdleTime(ctx, conn); err != nil {
		_ = conn.Close(ctx) // nothing was done on it
		return nil, err
	}
	return conn, nil
}

// maxIdleTime is how long the server keeps an idle session. A process that stands still between a decision and its
// call, such as in a suspended virtual machine, might not lead any longer when it goes on. It detects that at once, but
// not before it could have sent a statement. It is less than the lease of a leader, and more than the time for which
// connections are pooled.
const maxIdleTime = 5 * time.Second

// limitIdleTime has the server end a session that is idle for maxIdleTime. Before version 14 there is no such
// parameter, so connecting with it would fail.
func limitIdleTime(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SELECT set_config(name, '`+milliseconds(maxIdleTime)+`', false) FROM pg_settings WHERE name = 'idle_session_timeout'`)
	return err
}

// resetRole ends the effect of the parameter role that the owner of a database has set for all sessions in it: the
// statements would have the permissions of that role. What is set for the user itself stays in effect. The parameters
// of a connection cannot do this, because they also replace that.
func resetRole(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SELECT set_config('role', 'none', false) WHERE current_setting('role') <> 'none' AND NOT EXISTS (
		SELECT FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) c
		WHERE r.rolname = session_user AND c LIKE 'role=%' AND (s.setdatabase = 0 OR s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())))`)
	return err
}
