// Package compose tests composites and claims as their users meet them, with the
// controllers running on a real API server.
package compose

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/pipeline"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/test/suite"
)

// functions are those that tests bring.
var functions pipeline.Functions

func TestMain(m *testing.M) { os.Exit(suite.Main(m, server.Options{Runner: &functions}, nil)) }
