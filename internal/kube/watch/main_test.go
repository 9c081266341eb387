package watch

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestMain runs the tests, stops the API server that some of them use, and then
// looks for goroutines that were left behind. A connection is none: it becomes idle, and can be closed, a moment after
// the last watch on it ends.
func TestMain(m *testing.M) {
	code := testkit.Main(m)
	connections := goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run")
	if err := goleak.Find(connections); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
