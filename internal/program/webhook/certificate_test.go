package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var at = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func TestACertificateIsReplacedInTime(t *testing.T) {
	hosts := []string{"127.0.0.1", "espalier.prod.svc"}
	first, err := issue(hosts, nil, at)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		hosts []string
		after time.Duration
		ok    bool
	}{
		"at once":            {hosts, 0, true},
		"for a clock behind": {hosts, -30 * time.Minute, true},
		"shortly before":     {hosts, validity - renewBefore - time.Minute, true},
		"when it is old":     {hosts, validity - renewBefore, false},
		"after its end":      {hosts, validity + time.Hour, false},
		"for somebody else":  {[]string{"espalier.dev.svc"}, 0, false},
	} {
		if _, err := first.load(tc.hosts, at.Add(tc.after)); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}

	// Who knows the authorities of the second still knows the first, and not one before.
	second, err := issue(hosts, first.Authorities, at)
	if err != nil {
		t.Fatal(err)
	}
	third, err := issue(hosts, second.Authorities, at)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		of, by Pair
		ok     bool
	}{"the one before": {first, second, true}, "one long ago": {first, third, false}, "a later one": {second, first, false}} {
		if _, err := (Pair{Authorities: tc.by.Authorities, Certificate: tc.of.Certificate, Key: tc.of.Key}).load(hosts, at); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACertificateServes(t *testing.T) {
	pair, err := issue([]string{"localhost"}, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.load([]string{"localhost"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if c, err := listener.Accept(); err == nil {
			_ = c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pair.Authorities)
	c, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestADirectoryKeepsACertificateForItself(t *testing.T) {
	d := Directory(filepath.Join(t.TempDir(), "webhook"))
	if p, err := d.Load(t.Context()); err != nil || p.Key != nil {
		t.Fatalf("at first: %v %v", p, err)
	}
	pair, err := issue([]string{"127.0.0.1"}, nil, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Save(t.Context(), pair); err != nil {
		t.Fatal(err)
	}
	got, err := d.Load(t.Context())
	if diff := cmp.Diff(pair, got); err != nil || diff != "" {
		t.Fatalf("%v\n%s", err, diff)
	}
	for path, want := range map[string]os.FileMode{string(d): 0o700, filepath.Join(string(d), keyFile): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	// One that was written by half is made anew.
	if err := os.WriteFile(filepath.Join(string(d), certificateFile), []byte("-----BEGIN"), 0o600); err != nil {
		t.Fatal(err)
	}
	half, err := d.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := half.load([]string{"127.0.0.1"}, at); err == nil {
		t.Error("half a certificate is used")
	}
}
