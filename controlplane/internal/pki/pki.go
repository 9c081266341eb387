// Package pki manages the keys and certificates of one control plane in a directory: its own
// certificate authority, certificates for the server, for the administrator and for the server's requests to
// admission webhooks, and the key that signs service account tokens.
package pki

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Pair names the PEM files of a certificate and its private key.
type Pair struct {
	CertFile string
	KeyFile  string
}

// Set names all files. The admin's key gives full access to the control plane.
type Set struct {
	Authority          Pair
	Server             Pair
	Admin              Pair
	Webhooks           Pair
	ServiceAccountFile string
}

// LoadOrCreate returns the set in dir. It creates the files that are missing, unreadable, of another
// authority or about to expire; the others stay byte for byte, so that a kubeconfig with these
// certificates survives restarts. The directory has mode 0700, private keys 0600.
func LoadOrCreate(dir string, now time.Time) (Set, error) {
	set := Set{
		Authority:          pairIn(dir, "ca"),
		Server:             pairIn(dir, "server"),
		Admin:              pairIn(dir, "admin"),
		Webhooks:           pairIn(dir, "webhooks"),
		ServiceAccountFile: filepath.Join(dir, "service-account.key"),
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Set{}, err
	}
	authority, err := loadOrCreateAuthority(set.Authority, now)
	if err != nil {
		return Set{}, fmt.Errorf("certificate authority: %w", err)
	}
	if err := authority.ensure(set.Server, serverRequest(), now); err != nil {
		return Set{}, fmt.Errorf("server certificate: %w", err)
	}
	if err := authority.ensure(set.Admin, adminRequest(), now); err != nil {
		return Set{}, fmt.Errorf("administrator's certificate: %w", err)
	}
	if err := authority.ensure(set.Webhooks, webhooksRequest(), now); err != nil {
		return Set{}, fmt.Errorf("certificate for webhooks: %w", err)
	}
	if err := ensureKey(set.ServiceAccountFile); err != nil {
		return Set{}, fmt.Errorf("service account key: %w", err)
	}
	return set, nil
}

func pairIn(dir, name string) Pair {
	return Pair{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
}
