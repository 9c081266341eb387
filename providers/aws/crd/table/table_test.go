package table_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws/crd/table"
)

func TestPagesAreGenerated(t *testing.T) {
	pages, err := table.Pages()
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range pages {
		got, err := os.ReadFile(filepath.Join("../../../../docs", file))
		if err != nil || string(got) != want {
			t.Errorf("docs/%s is not up to date: run go generate (%v)", file, err)
		}
		if len(want) > 400_000 {
			t.Errorf("docs/%s has %d bytes", file, len(want))
		}
	}
}
