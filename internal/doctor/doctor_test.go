package doctor_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

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
		for _, width := range []int{80, 120} {
			text := doctor.Text(found, width)
			a.Record(fmt.Sprintf("%d.txt", width), text)
			golden.CheckWidth(t, a.Name, text, width)
		}
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
