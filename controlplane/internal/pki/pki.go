// Package pki keeps the keys and certificates of one control plane in a directory: its own
// authority, a certificate for the server, one for the administrator, and the key that signs
// service account tokens.
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

// Set names all files. Those who hold the admin's key hold the control plane.
type Set struct {
	Authority          Pair
	Server             Pair
	Admin              Pair
	ServiceAccountFile string
}

// Keep returns the set in dir. What is missing, unreadable, not of this authority or about to
// expire is made anew; everything else stays byte for byte, so that a kubeconfig made from the
// set outlives restarts. The directory has mode 0700, private keys 0600.
func Keep(dir string, now time.Time) (Set, error) {
	set := Set{
		Authority:          pairIn(dir, "ca"),
		Server:             pairIn(dir, "server"),
		Admin:              pairIn(dir, "admin"),
		ServiceAccountFile: filepath.Join(dir, "service-account.key"),
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Set{}, err
	}
	authority, err := keepAuthority(set.Authority, now)
	if err != nil {
		return Set{}, fmt.Errorf("certificate authority: %w", err)
	}
	if err := authority.keep(set.Server, serverRequest(), now); err != nil {
		return Set{}, fmt.Errorf("server certificate: %w", err)
	}
	if err := authority.keep(set.Admin, adminRequest(), now); err != nil {
		return Set{}, fmt.Errorf("administrator's certificate: %w", err)
	}
	if err := keepKey(set.ServiceAccountFile); err != nil {
		return Set{}, fmt.Errorf("service account key: %w", err)
	}
	return set, nil
}

func pairIn(dir, name string) Pair {
	return Pair{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
}
