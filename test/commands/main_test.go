// Package commands runs the commands that pages and help texts document, in a control plane as a new user has it.
package commands

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
)

// TestMain is also the program that the tests run: they call links to the test's executable, so that it is always built
// from the current sources. The standard input of a control plane is a pipe of the test, so that it ends with the test,
// however that ends.
func TestMain(m *testing.M) {
	if strings.HasSuffix(filepath.Base(os.Args[0]), "espalier") {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		if len(os.Args) > 1 && os.Args[1] == "up" {
			go func() {
				_, _ = io.Copy(io.Discard, os.Stdin)
				stop()
			}()
		}
		code := cli.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}
