package watch

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestMain runs the tests, stops the API server that some of them use, and then
// looks for goroutines that were left behind.
func TestMain(m *testing.M) {
	code := testkit.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
