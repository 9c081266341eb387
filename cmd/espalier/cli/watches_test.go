package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/manager/introspect"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestWatchesGoldens reads testdata: watches as a table, as JSON and YAML, and on
// screens of 80 and 120 columns.
func TestWatchesGoldens(t *testing.T) {
	golden.Run(t, "testdata/watches*.txtar", func(t *testing.T, a *golden.Archive) {
		var all []introspect.Watch
		if err := json.Unmarshal([]byte(a.Input["watches.json"]), &all); err != nil {
			t.Fatal(err)
		}
		for _, output := range []outputFlag{tableOutput, jsonOutput, yamlOutput} {
			var text bytes.Buffer
			if err := printWatches(&text, all, output); err != nil {
				t.Fatal(err)
			}
			a.Record(string(output), text.String())
		}
		for _, width := range []int{80, 120} {
			name := fmt.Sprint(width)
			shown := watchesText(all, width)
			a.Record(name, shown)
			for line := range strings.Lines(shown) {
				if n := utf8.RuneCountInString(line); n > width+1 {
					t.Errorf("a line of %s has %d characters: %s", name, n, line)
				}
			}
		}
	})
}

func TestWatchesErrors(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	file := testkit.Kubeconfig(t, &rest.Config{Host: "https://here.example.com:6443"})
	tried := introspect.SocketPath(&rest.Config{Host: "https://here.example.com:6443"})
	open := filepath.Join(t.TempDir(), "it.sock")
	if err := os.Chmod(filepath.Dir(open), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		code int
		says string
	}{
		"No program listens on the default socket": {
			[]string{"--kubeconfig", file}, 1,
			"espalier: no program listens on " + tried + ": 'espalier up' or 'espalier run' must be running on this machine as this user for the cluster at https://here.example.com:6443, and be the leader\n",
		},
		"No program listens on the socket of --socket": {
			[]string{"--socket", "/nowhere/it.sock", "--kubeconfig", "/nowhere/at/all"}, 1,
			"espalier: no program listens on /nowhere/it.sock: 'espalier up' or 'espalier run' must be running on this machine as this user with --introspection-socket /nowhere/it.sock\n",
		},
		"A directory that is open to others": {[]string{"--socket", open}, 1, "is open to others"},
		"A path that is too long":            {[]string{"--socket", "/" + strings.Repeat("x", 200)}, 1, "can have at most 107 bytes"},
		"An unknown output format":           {[]string{"-o", "xml", "--kubeconfig", file}, 2, "must be one of table, json, yaml"},
		"A missing kubeconfig":               {[]string{"--kubeconfig", "/nowhere/at/all"}, 1, "/nowhere/at/all"},
		"An argument":                        {[]string{"vpcs"}, 2, "watches takes no arguments, not \"vpcs\""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t.Context(), append([]string{"watches"}, tt.args...)...)
			if code != tt.code || !strings.Contains(errs, tt.says) || out != "" {
				t.Errorf("exit code %d, %q, %q; want %d and %q", code, out, errs, tt.code, tt.says)
			}
		})
	}
}

func TestIntrospectionSocket(t *testing.T) {
	config := &rest.Config{Host: "https://here.example.com:6443"}
	for name, tt := range map[string]struct{ flag, want string }{
		"by default derived from the address of the cluster": {"", introspect.SocketPath(config)},
		"the given path": {"/run/it.sock", "/run/it.sock"},
		"none for 0":     {"0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var flags configuration
			flags.IntrospectionSocket = tt.flag
			if got := flags.socket(config); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
