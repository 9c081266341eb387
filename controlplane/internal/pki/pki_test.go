package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var now = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func TestLoadOrCreate(t *testing.T) {
	cases := map[string]struct {
		reason  string
		between func(t *testing.T, dir string)
		later   time.Duration
		renewed []string
		kept    []string
	}{
		"everything is kept across a restart": {
			reason: "a kubeconfig must outlive the process that wrote it",
			later:  24 * time.Hour,
			kept:   []string{"ca.crt", "ca.key", "server.crt", "admin.crt", "admin.key", "webhooks.crt", "webhooks.key", "service-account.key"},
		},
		"a certificate about to expire is renewed": {
			reason:  "a process may run for weeks, and must not end with an expired certificate",
			later:   leafValidity - renewBefore + time.Hour,
			renewed: []string{"server.crt", "admin.crt", "webhooks.crt"},
			kept:    []string{"ca.crt", "service-account.key"},
		},
		"a key that does not fit its certificate is replaced with it": {
			reason: "a crash between the writes of the two files must heal",
			between: func(t *testing.T, dir string) {
				copyFile(t, filepath.Join(dir, "server.key"), filepath.Join(dir, "admin.key"))
			},
			renewed: []string{"admin.crt", "admin.key"},
			kept:    []string{"ca.crt", "server.crt"},
		},
		"a new authority renews all that the old one signed": {
			reason: "clients trust only the authority of their kubeconfig",
			between: func(t *testing.T, dir string) {
				if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
					t.Fatal(err)
				}
			},
			renewed: []string{"ca.crt", "server.crt", "admin.crt", "webhooks.crt"},
			kept:    []string{"service-account.key"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mustLoad(t, dir, now)
			before := readAll(t, dir)
			if tc.between != nil {
				tc.between(t, dir)
			}
			mustLoad(t, dir, now.Add(tc.later))
			after := readAll(t, dir)
			for _, file := range tc.kept {
				if before[file] != after[file] {
					t.Errorf("%s changed: %s", file, tc.reason)
				}
			}
			for _, file := range tc.renewed {
				if before[file] == after[file] {
					t.Errorf("%s stayed: %s", file, tc.reason)
				}
			}
		})
	}
}

func TestCertificatesAreTrustedForTheirPurpose(t *testing.T) {
	set := mustLoad(t, t.TempDir(), now)
	ca, err := os.ReadFile(set.Authority.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)

	verify := func(files Pair, name string, usage x509.ExtKeyUsage) *x509.Certificate {
		t.Helper()
		pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{
			Roots: roots, DNSName: name, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
		})
		if err != nil {
			t.Errorf("%s: %v", files.CertFile, err)
		}
		return pair.Leaf
	}
	verify(set.Server, "127.0.0.1", x509.ExtKeyUsageServerAuth)
	verify(set.Server, "localhost", x509.ExtKeyUsageServerAuth)
	verify(set.Webhooks, "", x509.ExtKeyUsageClientAuth)
	admin := verify(set.Admin, "", x509.ExtKeyUsageClientAuth)
	if got := admin.Subject.Organization; len(got) != 1 || got[0] != "system:masters" {
		t.Errorf("the administrator is in the groups %v", got)
	}
}

func TestPrivateKeysAreForTheirOwnerOnly(t *testing.T) {
	set := mustLoad(t, filepath.Join(t.TempDir(), "pki"), now)
	for file, want := range map[string]os.FileMode{
		filepath.Dir(set.Admin.KeyFile): 0o700,
		set.Authority.KeyFile:           0o600,
		set.Server.KeyFile:              0o600,
		set.Admin.KeyFile:               0o600,
		set.Webhooks.KeyFile:            0o600,
		set.ServiceAccountFile:          0o600,
	} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", file, got, want)
		}
	}
}

func mustLoad(t *testing.T, dir string, now time.Time) Set {
	t.Helper()
	set, err := LoadOrCreate(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func readAll(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = string(data)
	}
	return files
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
