package manager

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"sync"

	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// The files of a certificate, as in Secrets of type kubernetes.io/tls. They are read again when
// they change.
const (
	certName = "tls.crt"
	keyName  = "tls.key"
)

// ServingTLS returns the configuration of a server whose certificate is in a directory, as tls.crt
// and tls.key; without a directory it is self-signed. The returned function reads the files again
// when they change, until the context ends.
func ServingTLS(dir string) (*tls.Config, func(context.Context) error, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if dir == "" {
		config.GetCertificate = selfSigned()
		return config, func(ctx context.Context) error { <-ctx.Done(); return nil }, nil
	}
	watcher, err := certwatcher.New(filepath.Join(dir, certName), filepath.Join(dir, keyName))
	if err != nil {
		return nil, nil, fmt.Errorf("read the certificate: %w", err)
	}
	config.GetCertificate = watcher.GetCertificate
	return config, watcher.Start, nil
}

// selfSigned returns a certificate that is created with the first connection. The default of
// controller-runtime would use files in the directory for temporary files, if somebody has put
// them there.
func selfSigned() func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	create := sync.OnceValues(func() (*tls.Certificate, error) {
		certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
		if err != nil {
			return nil, fmt.Errorf("create a certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(certificate, key)
		return &pair, err
	})
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return create() }
}
