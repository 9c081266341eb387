package manager

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/util/cert"
)

func TestTheMetricsCertificate(t *testing.T) {
	good, half := t.TempDir(), t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{
		filepath.Join(good, certName): certificate, filepath.Join(good, keyName): key, filepath.Join(half, certName): certificate,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		options Options
		err     string
	}{
		"none":                            {},
		"a self-signed one":               {options: Options{MetricsSecure: true}},
		"one in a directory":              {options: Options{MetricsSecure: true, MetricsCertPath: good}},
		"one without its key":             {options: Options{MetricsSecure: true, MetricsCertPath: half}, err: keyName},
		"one for metrics without TLS":     {options: Options{MetricsCertPath: good}, err: "requires metrics.secure"},
		"one in a directory that is gone": {options: Options{MetricsSecure: true, MetricsCertPath: filepath.Join(good, "none")}, err: "--metrics-cert-path"},
	} {
		if err := tc.options.checkMetrics(); (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecureMetricsUseNoFilesByDefault(t *testing.T) {
	config := &tls.Config{}
	for _, apply := range (Options{MetricsSecure: true}).metricsServer().TLSOpts {
		apply(config)
	}
	if config.GetCertificate == nil {
		t.Fatal("the metrics server reads a certificate from its default directory")
	}
	first, err := config.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if second, _ := config.GetCertificate(nil); first != second {
		t.Error("each connection gets another certificate")
	}
}
