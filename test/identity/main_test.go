// Package identity proves that identity is stable: a definition that comes back finds its
// instances, these their children, and nobody takes what belongs to another.
package identity

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) { os.Exit(suite.Main(m, server.Options{}, nil)) }
