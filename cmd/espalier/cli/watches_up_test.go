package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/program/manager/introspect"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// runningUp is espalier up, as a person runs it in another terminal.
type runningUp struct {
	sockets string // the directory of sockets
	stop    func() (code int, errs string)
}

// startUp runs espalier up until it is ready, for commands with its KUBECONFIG and nothing else.
func startUp(t *testing.T) runningUp {
	t.Helper()
	needsControlPlane(t)
	dir, sockets := t.TempDir(), t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", sockets)
	t.Setenv("KUBECONFIG", filepath.Join(dir, "kubeconfig"))

	ctx, cancel := context.WithCancel(t.Context())
	out := &lines{come: make(chan string, 64)}
	var failed bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, []string{"up", "--data-dir", filepath.Join(dir, "data"), "--write-kubeconfig", os.Getenv("KUBECONFIG")}, out, &failed)
	}()
	stop := sync.OnceValues(func() (int, string) {
		cancel()
		code := <-ended
		return code, failed.String()
	})
	t.Cleanup(func() { stop() })
	for line := ""; line != "ready"; {
		select {
		case line = <-out.come:
		case code := <-ended:
			ended <- code
			t.Fatalf("ended with %d before it was ready: %s", code, failed.String())
		case <-time.After(time.Minute):
			t.Fatal("not ready")
		}
	}
	return runningUp{sockets: sockets, stop: stop}
}

// TestWatchesOfUp asks a program that runs, as a person does in another
// terminal: with its KUBECONFIG and nothing else.
func TestWatchesOfUp(t *testing.T) {
	up := startUp(t)
	ask := func(args ...string) string {
		t.Helper()
		code, text, errs := call(t.Context(), append([]string{"watches"}, args...)...)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		return text
	}
	// Kinds that were installed a moment ago take the API server a moment to serve.
	unsynced := func() []string {
		t.Helper()
		var all []introspect.Watch
		if err := json.Unmarshal([]byte(ask("-o", "json")), &all); err != nil {
			t.Fatal(err)
		}
		missing := []string{"ResourceGraphDefinition", "ResourceGroup", "CompositeResourceDefinition", "Composition", "Function", "Usage"}
		var late []string
		for _, w := range all {
			missing = slices.DeleteFunc(missing, func(kind string) bool { return kind == w.Kind })
			if w.State != "Synced" {
				late = append(late, w.Kind)
			}
		}
		return append(missing, late...)
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for limit := time.After(testkit.Timeout); len(unsynced()) > 0; {
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("not synced are %v", unsynced())
		}
	}
	table := ask()
	for _, line := range []string{
		`(?m)^KIND +SELECTION +STATE +REASON +SUBSCRIBERS +OBJECTS +EVENTS +AGE +WHY$`,
		`(?m)^ResourceGraphDefinition\.kro\.run/v1alpha1 +all +Synced +1 +0 +0 +\d+s$`,
		`(?m)^\d+ watches of \d+ kinds, \d+ objects?$`,
	} {
		if !regexp.MustCompile(line).MatchString(table) {
			t.Errorf("no line is like %s:\n%s", line, table)
		}
	}

	if code, errs := up.stop(); code != 0 {
		t.Errorf("ended with %d: %s", code, errs)
	}
	if left, err := filepath.Glob(filepath.Join(up.sockets, "espalier", "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if code, _, errs := call(t.Context(), "watches"); code != 1 || !strings.Contains(errs, "no program listens") {
		t.Errorf("exit code %d after the end: %s", code, errs)
	}
}
