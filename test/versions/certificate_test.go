package versions

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestACertificateIsRotated lets certificates get old: the published CA bundle always fits the
// served certificate.
func TestACertificateIsRotated(t *testing.T) {
	k, err := cluster.New(cluster.Options{Config: testkit.ExclusiveServer(t), Workers: 1, Log: logr.Discard()})
	noError(t, err)
	dir := webhook.Directory(t.TempDir())
	// serve runs a process the given days from now, and returns the serial number of its certificate
	// and the CA bundle that it publishes.
	serve := func(days int, leads bool) (serial string, bundle []byte) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		endpoints := make(chan install.Endpoint, 8)
		now := func() time.Time { return time.Now().AddDate(0, 0, days) }
		s := &webhook.Server{
			Options: webhook.Options{Address: "127.0.0.1:0", URL: "https://127.0.0.1", Store: dir},
			Cluster: k.Client, Now: now, Log: logr.Discard(),
			OnEndpoint: func(e install.Endpoint) { endpoints <- e }, IsLeader: func() bool { return leads },
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		var e install.Endpoint
		select {
		case e = <-endpoints:
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(testkit.Timeout):
			t.Fatal("no CA bundle is published")
		}
		at, err := url.Parse(e.URL)
		noError(t, err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(e.CABundle)
		dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, Time: now, MinVersion: tls.VersionTLS12}}
		conn, err := dialer.DialContext(ctx, "tcp", at.Host)
		noError(t, err)
		serial = conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
		noError(t, conn.Close())
		cancel()
		noError(t, <-ended)
		return serial, e.CABundle
	}
	first, bundle := serve(0, true)
	if later, same := serve(40, false); later != first || string(same) != string(bundle) {
		t.Error("a certificate that is not old is replaced")
	}
	if later, same := serve(65, false); later != first || string(same) != string(bundle) {
		t.Error("a process that is not the leader replaces a certificate that is only old")
	}
	later, next := serve(65, true)
	if later != first {
		t.Error("the new certificate is served before the API server trusts it")
	}
	if string(next) == string(bundle) {
		t.Error("the certificate is not replaced")
	}
	// Processes that start later serve it, with the same bundle.
	if again, same := serve(65, false); again == first || string(same) != string(next) {
		t.Error("the new certificate is not served")
	}
}
