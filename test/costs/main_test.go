// Package costs counts the requests that the controllers make: for an instance that is created,
// changed, deleted or blocked.
package costs

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }
