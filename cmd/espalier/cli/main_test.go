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

// functionLife is the variable that makes a function program of the test's own program.
const functionLife = "ESPALIER_TEST_FUNCTION"

func TestMain(m *testing.M) {
	if os.Getenv(functionLife) != "" {
		fmt.Fprintln(os.Stderr, "at your service")
		function.Main(func(_ context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			return function.To(request), nil
		})
		return
	}
	manager.NewLogger(io.Discard, manager.LogText, 0) // before anything runs that would log
	os.Exit(testkit.Main(m))
}

// call runs the program and returns its exit code and what it printed.
func call(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Main(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}
