package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// needAWS are commands that espalier-provider-aws runs in place of espalier.
func needAWS(t *testing.T) [][]string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("apiVersion: config.espalier.dev/v1alpha1\nkind: ControllerConfiguration\naws: {enabled: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return [][]string{
		{"up", "--aws"},
		{"up", "--config", config},
		{"run", "--aws", "--leader-elect=false", "--webhook-bind-address=0", "--kubeconfig", kubeconfig},
		{"provider", "run", "aws", "--help"},
		{"aws", "import", "AWS::EC2::VPC", "vpc-1"},
		{"demo", "--cloud=aws"},
	}
}

func TestAMissingProgramIsNamed(t *testing.T) {
	t.Setenv("PATH", "")
	for _, args := range needAWS(t) {
		code, out, errs := call(t.Context(), args...)
		if code != exitFailed || out != "" || !strings.Contains(strings.Join(strings.Fields(errs), " "), "'make bin/espalier-provider-aws' in a checkout") {
			t.Errorf("espalier %q: exit code %d: %s%s", args, code, out, errs)
		}
	}
}

func TestTheProgramWithAWSRunsWhatNeedsIt(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	beside, err := os.MkdirTemp(filepath.Dir(self), "beside") // where the test program can have another name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(beside) })
	if err := os.Link(self, filepath.Join(beside, asProgram)); err != nil {
		t.Fatal(err)
	}
	inPath := t.TempDir()
	if err := os.Symlink(self, filepath.Join(inPath, asProgram)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", inPath+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, folder := range []string{inPath, beside} { // each precedes the one before
		script := "#!/bin/sh\necho " + folder + " \"$@\"\nexit 7\n"
		if err := os.WriteFile(filepath.Join(folder, awsProgram), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, args := range needAWS(t) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(beside, asProgram), args...)
			out, _ := cmd.CombinedOutput()
			if want := folder + " " + strings.Join(args, " ") + "\n"; string(out) != want || cmd.ProcessState.ExitCode() != 7 {
				t.Errorf("exit code %d: it prints %q, not %q", cmd.ProcessState.ExitCode(), out, want)
			}
		}
	}
}
