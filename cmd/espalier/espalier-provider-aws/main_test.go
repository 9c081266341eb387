package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/kube/embedded"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// Exit codes of the program.
const (
	failed  = 1
	misused = 2
)

// The test program is this program when it is run by one of these names.
const (
	program = "espalier-provider-aws"
	inImage = "espalier"
)

func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name == program || name == inImage {
		main()
		return
	}
	manager.NewLogger(io.Discard, manager.LogText, 0) // before anything logs
	os.Exit(testkit.Main(m))
}

// call runs a command in this process.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Main(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// command is the program with a name, and arguments as in a shell.
func command(t *testing.T, name, args string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", "exec "+path+" "+args)
	cmd.Env = os.Environ()
	return cmd
}

func TestTheProgramWithAndWithoutACommand(t *testing.T) {
	for _, tc := range []struct{ name, args, want string }{
		{program, "--help", "-aws-types-file"},
		{program, "--nothing", "flag provided but not defined: -nothing"},
		{program, "provider run aws --help", "-aws-types-file"},
		{program, "aws types AWS::EC2::VPC", "ec2.aws.espalier.dev"},
		{program, "nothing", `there is no command "espalier nothing"`},
		{inImage, "", "Write definitions:"},
		{inImage, "--help", "Write definitions:"},
		{inImage, "provider run aws --help", "-aws-types-file"},
	} {
		out, _ := command(t, tc.name, tc.args).CombinedOutput()
		if !strings.Contains(string(out), tc.want) {
			t.Errorf("%s %s does not print %q:\n%s", tc.name, tc.args, tc.want, out)
		}
	}
}

// TestTheProviderByItself runs a documented command on a control plane of its own.
func TestTheProviderByItself(t *testing.T) {
	testkit.NeedsServer(t)
	plane, err := embedded.Start(t.Context(), embedded.Options{DataDir: t.TempDir(), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	t.Setenv("KUBECONFIG", plane.Kubeconfig())
	cmd := command(t, program, "provider run aws --leader-elect=false")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Poll(t, "it serves activations", func() bool {
		code, _, _ := call(t, "aws", "activations")
		return code == 0
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}
