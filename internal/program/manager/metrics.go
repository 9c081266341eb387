package manager

import (
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"

	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/espalier-dev/espalier/internal/program/manager/access"
)

// metricsServer returns the options of the metrics server.
func (o Options) metricsServer() metricsserver.Options {
	options := metricsserver.Options{BindAddress: o.MetricsAddress}
	if !o.MetricsSecure {
		return options
	}
	options.SecureServing, options.FilterProvider = true, access.Filters
	options.CertDir, options.CertName, options.KeyName = o.MetricsCertPath, certName, keyName
	options.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS12
		c.NextProtos = []string{"http/1.1"} // a scraper needs no HTTP/2
		if o.MetricsCertPath == "" {
			c.GetCertificate = selfSigned()
		}
	}}
	return options
}

// checkMetrics checks the certificate of the metrics server: without it, the server would use a
// self-signed one instead.
func (o Options) checkMetrics() error {
	if o.MetricsCertPath == "" {
		return nil
	}
	if !o.MetricsSecure {
		return errors.New("metrics.certPath (--metrics-cert-path) requires metrics.secure (--metrics-secure)")
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(o.MetricsCertPath, certName), filepath.Join(o.MetricsCertPath, keyName)); err != nil {
		return fmt.Errorf("metrics.certPath (--metrics-cert-path): %w", err)
	}
	return nil
}
