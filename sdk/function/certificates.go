package function

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
)

// MutualTLS reads the function's certificate from tls.crt and tls.key in a directory, and requires client certificates
// that ca.crt has signed. The files are read again for each connection, because certificates are renewed while the
// function runs. While they cannot be read, as in the middle of a renewal, the last ones that could be apply.
func MutualTLS(directory string) (*tls.Config, error) {
	config, err := readMutualTLS(directory)
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Config]
	last.Store(config)
	out := config.Clone()
	out.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if current, err := readMutualTLS(directory); err == nil {
			last.Store(current)
		}
		return last.Load(), nil
	}
	return out, nil
}

func readMutualTLS(directory string) (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(directory, "ca.crt"))
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s contains no CA certificate", filepath.Join(directory, "ca.crt"))
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{certificate},
		ClientCAs:    authorities,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}, nil
}
