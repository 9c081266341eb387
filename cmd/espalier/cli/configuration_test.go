package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/espalier-dev/espalier/internal/program/server"
)

// TestFlagsOfRun lists them all: another one has to be one that people type, or that differs between processes. Others are fields of
// the configuration file.
func TestFlagsOfRun(t *testing.T) {
	want := []string{
		"allow-crd-deletion", "aws", "check", "config", "context", "dialects", "function", "function-env", "functions-development",
		"health-probe-bind-address", "help", "introspection-socket", "kubeconfig", "leader-elect", "leader-election-namespace", "log-format",
		"metrics-bind-address", "metrics-secure", "postgresql", "replace-crossplane-webhook", "require-service-account", "tracing-endpoint",
		"ui-bind-address", "verbosity", "watch-label-selector", "watch-namespaces", "webhook-bind-address", "webhook-service", "webhook-url", "workers",
	}
	var got []string
	cmd := newRun()
	cmd.InitDefaultHelpFlag()
	cmd.Flags().VisitAll(func(f *pflag.Flag) { got = append(got, f.Name) })
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(got) > 30 {
		t.Errorf("%d flags (-want +got):\n%s", len(got), diff)
	}
}

// configured is the configuration of run with a file, unless it is empty, and arguments.
func configured(t *testing.T, file string, args ...string) (runFlags, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "config.yaml")
		text := "apiVersion: config.espalier.dev/v1alpha1\nkind: ControllerConfiguration\n" + file
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config="+path)
	}
	var f runFlags
	cmd := &cobra.Command{}
	f.add(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f, f.complete(cmd)
}

func TestFlagsPrecedeTheFile(t *testing.T) {
	const file = "workers: 3\nrequestsInFlight: 5\ndialects: [graph]\nwatchNamespaces: [a, b]\nleaderElection: {enabled: false}\nfunctions: {local: [f=./p]}"
	for name, tc := range map[string]struct {
		file string
		args []string
		want func(*server.ControllerConfiguration)
	}{
		"the defaults without either": {want: func(*server.ControllerConfiguration) {}},
		"the file replaces defaults": {file: file, want: func(c *server.ControllerConfiguration) {
			c.Workers, c.RequestsInFlight, c.Dialects, c.WatchNamespaces = 3, 5, []server.Dialect{server.Graph}, []string{"a", "b"}
			c.LeaderElection.Enabled, c.Functions.Local = false, []string{"f=./p"}
		}},
		"flags replace fields, also by the value of the default": {
			file: file, args: []string{"--workers=16", "--dialects=composition", "--watch-namespaces=c", "--watch-namespaces=d", "--leader-elect", "--function=g=./q"},
			want: func(c *server.ControllerConfiguration) {
				c.RequestsInFlight, c.Dialects, c.WatchNamespaces = 5, []server.Dialect{server.Composition}, []string{"c", "d"}
				c.Functions.Local = []string{"g=./q"}
			},
		},
		"a flag completes a section": {file: "webhook: {certPath: /c}", args: []string{"--webhook-bind-address=:9443", "--webhook-url=https://x"},
			want: func(c *server.ControllerConfiguration) {
				c.Webhook = server.WebhookConfiguration{BindAddress: ":9443", URL: "https://x", CertPath: "/c"}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			want := server.DefaultConfiguration()
			tc.want(&want)
			f, err := configured(t, tc.file, tc.args...)
			if diff := cmp.Diff(want, f.ControllerConfiguration); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestAnInvalidFileIsAUsageError(t *testing.T) {
	_, err := configured(t, "wrokers: 1\nworkers: many", "--log-format=xml")
	if codeOf(err) != exitUsage {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"config.yaml: ", "wrokers: Forbidden: unknown field", "workers: Invalid value", `log.format: Invalid value: "xml"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	var up upFlags
	cmd := &cobra.Command{}
	up.add(cmd)
	up.UI.BindAddress = ":1"
	if err := up.check(cmd); codeOf(err) != exitUsage || !strings.Contains(err.Error(), "ui does not apply") {
		t.Errorf("up: %v", err)
	}
}
