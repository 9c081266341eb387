package serve

import (
	"context"
	"errors"
	"flag"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/sdk/managed"
)

func TestNoAddressesByDefault(t *testing.T) {
	s, err := parse("things", nil, nil, io.Discard)
	if err != nil || s.health != "0" || s.metrics != "0" {
		t.Errorf("want no addresses, got %q and %q: %v", s.health, s.metrics, err)
	}
	s, err = parse("things", nil, []string{"--health-probe-bind-address=:8081", "--metrics-bind-address=:8080"}, io.Discard)
	if err != nil || s.health != ":8081" || s.metrics != ":8080" {
		t.Errorf("want the addresses of the flags, got %q and %q: %v", s.health, s.metrics, err)
	}
}

func TestHelpFits(t *testing.T) {
	var help strings.Builder
	more := func(flags *flag.FlagSet) {
		flags.String("own", "a default", strings.Repeat("what the flag means ", 20))
	}
	if _, err := parse("things", more, []string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for line := range strings.Lines(help.String()) {
		if n := len(strings.ReplaceAll(line, "\t", "    ")); n > 100 {
			t.Errorf("a line has %d characters: %s", n, line)
		}
	}
}

func TestAMissingKubeconfigIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", missing)
	err := Run(context.Background(), managed.Provider{Name: "things"}, nil, io.Discard)
	if err == nil || !strings.Contains(err.Error(), missing) || strings.Contains(err.Error(), "KUBERNETES_MASTER") {
		t.Errorf("want an error with the path, got %v", err)
	}
}
