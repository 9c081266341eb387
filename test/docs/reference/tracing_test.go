package reference

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestAttributesOfTracesAreDocumented compares docs/tracing.md with the names that spans and logs use.
func TestAttributesOfTracesAreDocumented(t *testing.T) {
	const page = "../../../docs/tracing.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| attribute | of | meaning |\n|---|---|---|\n")
	var names []string
	for _, k := range tracing.Keys {
		if slices.Contains(names, k.Name) {
			t.Errorf("%s is listed twice", k.Name)
		}
		names = append(names, k.Name)
		table.WriteString("| `" + k.Name + "` | " + strings.Join(k.On, ", ") + " | " + k.Meaning + " |\n")
	}
	before, documented, _ := strings.Cut(string(text), "| attribute | of | meaning |")
	if documented = "| attribute | of | meaning |" + documented; documented == table.String() {
		return
	}
	if !golden.Update() {
		t.Fatalf("the table of %s is not current: run the test with -update", page)
	}
	if err := os.WriteFile(page, []byte(before+table.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
