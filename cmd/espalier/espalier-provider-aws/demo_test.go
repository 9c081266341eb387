package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestDemoOnAWS(t *testing.T) {
	testkit.NeedsServer(t)
	program := filepath.Join(t.TempDir(), "aws-testcloud")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../../providers/aws", "-o", program, "./testkit/awscloud/testcloud")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test cloud: %v\n%s", err, out)
	}
	data := t.TempDir()
	t.Setenv("TMPDIR", data)
	code, out, errs := call(t, "demo", "--cloud=aws", "--testcloud="+program)
	if code != 0 {
		t.Fatalf("exit code %d: %s\n%s", code, errs, out)
	}
	for _, says := range []string{
		"done: 10 objects are ready",
		"in EKS: desiredSize=5",
		"in EKS: desiredSize=3",
		"done: 3 nodes again in AWS after ",
		"held by finalizer example.com/backup, added by kubectl-patch",
		"done: all 10 objects are gone ",
		"nothing is left behind",
	} {
		if !strings.Contains(out, says) {
			t.Errorf("it does not say %q:\n%s", says, out)
		}
	}
	if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestDemoSaysWhyTheTestCloudDidNotStart(t *testing.T) {
	testkit.NeedsServer(t)
	code, out, errs := call(t, "demo", "--cloud=aws", "--testcloud=/bin/false")
	if code != failed || !strings.Contains(errs, "the test cloud /bin/false did not start") {
		t.Errorf("exit code %d: %s\n%s", code, errs, out)
	}
}
