package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// functionEnv is the environment variable with which the test program runs as a function.
const functionEnv = "ESPALIER_TEST_FUNCTION"

func TestMain(m *testing.M) {
	if os.Getenv(functionEnv) != "" {
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
