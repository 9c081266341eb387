package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-dev/espalier/internal/kube/embedded"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// needsControlPlane fails a test, rather than skip it, where the program isn't
// built, and says how to build it. Under -short nothing needs it.
func needsControlPlane(t *testing.T) {
	t.Helper()
	testkit.NeedsServer(t)
	if _, err := embedded.Find(); err != nil {
		t.Fatal(err)
	}
}

func TestDemo(t *testing.T) {
	needsControlPlane(t)
	data := t.TempDir()
	t.Setenv("TMPDIR", data)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var shown, errs bytes.Buffer
	code := Main(ctx, []string{"demo", "--keep"}, io.MultiWriter(&shown, &trigger{text: "until you press Ctrl-C", then: interrupt}), &errs)
	out := shown.String()
	if code != 0 {
		t.Fatalf("exit code %d: %s\n%s", code, errs.String(), out)
	}
	for _, says := range []string{
		"done: 8 objects are ready",
		"vpc.status.privateSubnet", // in the first table, or in a line if the VPC is there already
		"done: in the top's status after ",
		"EksClusterWithVpc default/demo is gone",
		"spec.nodes of EksCluster default/demo was changed by kubectl-patch and is corrected",
		"Network default/demo is not gone: held by finalizer example.com/backup, added by kubectl-patch",
		"done: all 8 objects are gone ",
		"export KUBECONFIG=" + data,
	} {
		if !strings.Contains(out, says) {
			t.Errorf("it doesn't say %q:\n%s", says, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("there are escape codes in what is not a screen")
	}
	nothingIn(t, data)
}

func TestDemoInterruptedCleansUp(t *testing.T) {
	needsControlPlane(t)
	for _, moment := range []string{"[1/7]", "[3/7]", "Creating"} {
		t.Run("at "+moment, func(t *testing.T) {
			data := t.TempDir()
			t.Setenv("TMPDIR", data)
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			out := &trigger{text: moment, then: interrupt}
			var errs bytes.Buffer
			if code := Main(ctx, []string{"demo"}, out, &errs); code != 1 {
				t.Errorf("exit code %d", code)
			}
			if !strings.Contains(errs.String(), errInterrupted.Error()) {
				t.Errorf("it says %q", errs.String())
			}
			nothingIn(t, data)
		})
	}
}

func nothingIn(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// trigger does something when a text is written for the first time.
type trigger struct {
	text string
	then func()
	once sync.Once
}

func (w *trigger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.once.Do(w.then)
	}
	return len(p), nil
}
