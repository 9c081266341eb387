package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"github.com/espalier-dev/espalier/internal/composition/packages/local"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// functionEnv is the environment variable with which the test program runs as a function.
const functionEnv = "ESPALIER_TEST_FUNCTION"

// The test program is the program espalier, or a function, when it is run by one of these names.
const (
	asProgram  = "espalier"
	asFunction = "mine"
)

func TestMain(m *testing.M) {
	local.EnterNamespaces()
	name := filepath.Base(os.Args[0])
	if name == asProgram {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		code := Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	if name == asFunction || os.Getenv(functionEnv) != "" {
		fmt.Fprintln(os.Stderr, "started")
		function.Main(func(_ context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			return function.To(request), nil
		})
		return
	}
	manager.NewLogger(io.Discard, manager.LogText, 0) // before anything logs
	os.Exit(testkit.Main(m))
}

// call runs the program and returns its exit code and what it printed.
func call(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Main(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}
