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
	catalog "github.com/espalier-dev/espalier/internal/functions/packages"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/sdk/function"
)

// functions are those that tests bring.
var functions pipeline.Functions

// beside has them called beside those that the cluster knows.
func beside(others pipeline.Runner) pipeline.Runner {
	return pipeline.Any{pipeline.Guard(&functions, pipeline.Limits{}), others}
}

// life is the variable that makes a function program of the test's own program.
const life = "ESPALIER_TEST_FUNCTION"

func TestMain(m *testing.M) {
	if os.Getenv(life) != "" {
		function.Main(obey)
		return
	}
	_ = os.Setenv(life, "1") // for the program, which is started by the controllers
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { _ = function.Serve(ctx, listener, counted, function.Insecure()) }()
	code := suite.Main(m, server.Options{Functions: catalog.Options{
		Given:  map[string]catalog.Given{"program": {Program: os.Args[0]}, "counted": {Address: listener.Addr().String()}},
		Limits: pipeline.Limits{Time: 2 * time.Second, Bytes: 1 << 20},
	}, Around: beside}, nil)
	stop()
	os.Exit(code)
}
