package versions

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/espalier-dev/espalier/internal/manager/cluster"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/webhook"
)

// TestACertificateIsHandedOver has certificates grow old: what is served is known to the
// API server by what it was told, before and after.
func TestACertificateIsHandedOver(t *testing.T) {
	k, err := cluster.New(cluster.Options{Config: testkit.ExclusiveServer(t), Workers: 1, Log: logr.Discard()})
	noError(t, err)
	dir := webhook.Directory(t.TempDir())
	// serve runs a process so many days from now, and returns what it serves and announces.
	serve := func(days int, leads bool) (serial string, bundle []byte) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		announced := make(chan install.Endpoint, 8)
		now := func() time.Time { return time.Now().AddDate(0, 0, days) }
		s := &webhook.Server{
			Options: webhook.Options{Address: "127.0.0.1:0", URL: "https://127.0.0.1", Store: dir},
			Cluster: k.Client, Now: now, Log: logr.Discard(),
			OnEndpoint: func(e install.Endpoint) { announced <- e }, IsLeader: func() bool { return leads },
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		var e install.Endpoint
		select {
		case e = <-announced:
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(testkit.Timeout):
			t.Fatal("nothing is announced")
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
		t.Error("a process that does not lead replaces one that is only old")
	}
	later, next := serve(65, true)
	if later != first {
		t.Error("the new one is used before the API server knows of it")
	}
	if string(next) == string(bundle) {
		t.Error("it is not replaced")
	}
	// Those who look then use it, and it is known by the same bundle.
	if again, same := serve(65, false); again == first || string(same) != string(next) {
		t.Error("the new one is not used")
	}
}
