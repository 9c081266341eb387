package plane

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestLogTakesStandardErrorUntilItIsRestored(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	for range 2 { // the second start appends
		restore, err := logTo(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(os.Stderr, "from a component")
		restore()
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := "from a component\nfrom a component\n"; string(got) != want {
		t.Errorf("the log holds %q", got)
	}
}
