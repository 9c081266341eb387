package pki

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
)

const (
	certBlock = "CERTIFICATE"
	keyBlock  = "EC PRIVATE KEY"
)

var errNotECDSA = errors.New("not an ECDSA key")

// readPair reads a certificate and its key, and fails unless they belong together. A crash between
// the two writes of writePair therefore shows as a pair that cannot be read, and is replaced.
func readPair(files Pair) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		return nil, nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errNotECDSA
	}
	return pair.Leaf, key, nil
}

func writePair(files Pair, cert *x509.Certificate, key *ecdsa.PrivateKey) error {
	if err := writeKey(files.KeyFile, key); err != nil {
		return err
	}
	return writePEM(files.CertFile, certBlock, cert.Raw, 0o644)
}

// ensureKey writes a private key to file, unless it has one.
func ensureKey(file string) error {
	if data, err := os.ReadFile(file); err == nil {
		if block, _ := pem.Decode(data); block != nil {
			if _, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
				return nil
			}
		}
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	return writeKey(file, key)
}

func writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(file, keyBlock, der, 0o600)
}

// writePEM replaces file as a whole; a reader sees the old content or the new one.
func writePEM(file, kind string, der []byte, mode os.FileMode) error {
	next := file + ".next"
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(next, data, mode); err != nil {
		return err
	}
	return os.Rename(next, file)
}
