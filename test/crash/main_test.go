// Package crash proves that a crash loses nothing: the controllers stop after their first,
// second, … last write, and the cluster has to converge to the same objects all the same. A
// restart writes nothing, and neither does what is at rest.
package crash

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }
