package chart_test

import (
	"bytes"
	"io/fs"
	"testing"

	"github.com/espalier-dev/espalier/charts"
	"github.com/espalier-dev/espalier/cmd/espalier/chart"
)

// TestGeneratedFilesAreCurrent compares the generated files of the chart with what generates them.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	want, err := chart.Generated()
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range want {
		got, err := fs.ReadFile(charts.Espalier(), path)
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("charts/espalier/%s is not current; run 'make generate': %v", path, err)
		}
	}
	policies, err := fs.Glob(charts.Espalier(), "files/policies/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range policies {
		if _, known := want[path]; !known {
			t.Errorf("charts/espalier/%s is not generated any more; run 'make generate'", path)
		}
	}
}
