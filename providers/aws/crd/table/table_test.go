package table_test

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws/crd/table"
)

func TestPageIsGenerated(t *testing.T) {
	want, err := table.Page()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../../docs/aws-types.md")
	if err != nil || string(got) != want {
		t.Errorf("docs/aws-types.md is not up to date: run go generate (%v)", err)
	}
	if len(want) > 400_000 {
		t.Errorf("the page has %d bytes", len(want))
	}
}
