// Package sweep stops the controllers after their first, second, … last write,
// and looks whether the world converges to the same objects all the same.
package sweep

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }
