// Package compositions tests composites and claims as their users meet them, with the
// controllers running on a real API server.
package compositions

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	catalog "github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/sdk/function"
)

// functions are the functions of tests.
var functions pipeline.Functions

// withTestFunctions calls the tests' functions, and others through the given runner.
func withTestFunctions(others pipeline.Runner) pipeline.Runner {
	return pipeline.FirstOf{pipeline.Guard(&functions, pipeline.CallLimits{}), others}
}

// life is the variable that makes a function program of the test's own program.
const life = "ESPALIER_TEST_FUNCTION"

func TestMain(m *testing.M) {
	if os.Getenv(life) != "" {
		function.Main(scriptedFunction)
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { _ = function.Serve(ctx, listener, countingFunction, function.Insecure()) }()
	code := suite.Main(m, server.Options{Functions: catalog.Options{
		Environment: []string{life + "=1"}, // for the program
		Local:       map[string]catalog.LocalFunction{"program": {Program: os.Args[0]}, "counted": {Address: listener.Addr().String()}},
		Limits:      pipeline.CallLimits{Timeout: 2 * time.Second, MaxBytes: 1 << 20},
	}, WrapRunner: withTestFunctions}, nil)
	stop()
	os.Exit(code)
}
