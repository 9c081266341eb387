// Package external stops the controllers of managed resources after their first,
// second, … last write, with the sandbox cloud behaving like one class of external
// API after the other, and looks whether the cloud and the API server end as they
// would have without.
package external

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }
