// Package identity tests that identity is stable: a recreated definition finds its instances, and
// these their children; objects of others are not taken over.
package identity

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) { os.Exit(suite.Main(m, server.Options{}, nil)) }
