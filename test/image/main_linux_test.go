// Package image unpacks the container image, and runs it as a container engine would: in a root that
// has nothing else, which is mounted read-only, as the user of the image, on a real API server.
package image

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(rootVariable) != "" {
		enter()
	}
	os.Exit(testkit.Main(m))
}
