package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/providers/aws/manifest"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/serve"
)

// AWS is what needs AWS's SDK, which is slow to compile. Package withaws has it.
type AWS struct {
	// Program is the provider by itself.
	Program func() serve.Program
	// Provider is the provider in the process of the controllers.
	Provider func(server.AWSConfiguration) (managed.Provider, error)
	// Existing reads resources that exist. The notes say what it left out.
	Existing func(context.Context, AWSResources) (found []manifest.Resource, notes []string, err error)
}

// AWSResources are resources of AWS that exist.
type AWSResources struct {
	Region, Profile, Endpoint string
	Type                      string
	Identifiers               []string
	Tags                      map[string]string
	// ListWith is a JSON object with what a list of resources of the type needs.
	ListWith string
	// Tree includes what the resources refer to.
	Tree bool
	// Limit is the greatest number of resources.
	Limit int
}

// linkedAWS is nil in the program espalier.
var linkedAWS *AWS

// LinkAWS adds what needs AWS's SDK, before Main is called.
func LinkAWS(a AWS) {
	linkedAWS = &a
	programs["aws"] = a.Program
}

// UsageError returns an error in the arguments.
func UsageError(err error) error { return &usageError{err} }

// awsProgram is the program espalier with AWS's SDK.
const awsProgram = "espalier-provider-aws"

// errNeedsAWS is returned, before anything is changed, by a command that awsProgram has to run in place of this program.
var errNeedsAWS = errors.New("the command needs " + awsProgram)

// requireAWS returns errNeedsAWS in the program espalier.
func requireAWS() error {
	if linkedAWS == nil {
		return errNeedsAWS
	}
	return nil
}

// runAWS replaces this process with awsProgram. On Windows, where that is impossible, it waits for it.
func runAWS(args []string) error {
	program, err := findAWS()
	if err != nil {
		return err
	}
	err = syscall.Exec(program, append([]string{program}, args...), os.Environ())
	if !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("start %s: %w", program, err)
	}
	cmd := exec.Command(program, args...) // the console interrupts both
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if ended := new(exec.ExitError); errors.As(err, &ended) {
		return &codedError{code: ended.ExitCode()}
	}
	return err
}

// findAWS returns the path of awsProgram: beside this program, or in PATH.
func findAWS() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), awsProgram)
		if runtime.GOOS == "windows" {
			beside += ".exe"
		}
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(awsProgram)
	if err != nil {
		return "", fmt.Errorf("this command needs %[1]s, the same program with AWS's SDK, which is neither beside this program nor in PATH. "+
			"'make bin/%[1]s' in a checkout of Espalier builds it; each release has an archive with it", awsProgram)
	}
	return path, nil
}
