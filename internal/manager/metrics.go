package manager

import (
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"k8s.io/client-go/util/cert"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/espalier-dev/espalier/internal/manager/access"
)

// The files in MetricsCertPath, as in Secrets of type kubernetes.io/tls. They are read again when
// they change.
const (
	metricsCertName = "tls.crt"
	metricsKeyName  = "tls.key"
)

// metricsServer returns the options of the metrics server.
func (o Options) metricsServer() metricsserver.Options {
	options := metricsserver.Options{BindAddress: o.MetricsAddress}
	if !o.MetricsSecure {
		return options
	}
	options.SecureServing, options.FilterProvider = true, access.Filters
	options.CertDir, options.CertName, options.KeyName = o.MetricsCertPath, metricsCertName, metricsKeyName
	options.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS12
		c.NextProtos = []string{"http/1.1"} // a scraper needs no HTTP/2
		if o.MetricsCertPath == "" {
			c.GetCertificate = selfSigned()
		}
	}}
	return options
}

// selfSigned returns a certificate that is created with the first connection. The default of
// controller-runtime would use files in the directory for temporary files, if somebody has put
// them there.
func selfSigned() func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	create := sync.OnceValues(func() (*tls.Certificate, error) {
		certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
		if err != nil {
			return nil, fmt.Errorf("create a certificate for metrics: %w", err)
		}
		pair, err := tls.X509KeyPair(certificate, key)
		return &pair, err
	})
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return create() }
}

// checkMetrics checks the certificate of the metrics server: without it, the server would use a
// self-signed one instead.
func (o Options) checkMetrics() error {
	if o.MetricsCertPath == "" {
		return nil
	}
	if !o.MetricsSecure {
		return errors.New("--metrics-cert-path requires --metrics-secure")
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(o.MetricsCertPath, metricsCertName), filepath.Join(o.MetricsCertPath, metricsKeyName)); err != nil {
		return fmt.Errorf("--metrics-cert-path: %w", err)
	}
	return nil
}
