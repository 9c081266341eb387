package doctor_test

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"strings"

	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/doctor"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestGoldens examines recorded states, at widths of 80 and 120 columns.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		var state doctor.State
		if err := yaml.UnmarshalStrict([]byte(a.Input["state.yaml"]), &state); err != nil {
			t.Fatal(err)
		}
		state.StuckAfter = 5 * time.Minute
		found := doctor.Examine(state)
		for _, f := range found {
			if f.Severity != doctor.OK && f.Remedy == "" {
				t.Errorf("%v has no remedy", f)
			}
		}
		for name, width := range map[string]int{"80.txt": 80, "120.txt": 120} {
			table, _, _ := strings.Cut(doctor.Text(found, width), "\n\n")
			for line := range strings.Lines(table) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s: %d columns: %s", name, n, line)
				}
			}
		}
		a.Record("80.txt", doctor.Text(found, 80))
		a.Record("120.txt", doctor.Text(found, 120))
		raw, err := json.MarshalIndent(found, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		a.Record("worst", string(doctor.Worst(found))+"\n")
		if a.Name == "problems" {
			a.Record("json", string(raw)+"\n")
		}
	})
}
