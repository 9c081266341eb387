package observe_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestStatusGoldens reads testdata/status: definitions.yaml, revisions.yaml, instances.yaml and managed.yaml. Expected are the text at two widths and
// the JSON.
func TestStatusGoldens(t *testing.T) {
	golden.Run(t, "testdata/status/*.txtar", func(t *testing.T, a *golden.Archive) {
		now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
		read := func(name string) (out []*unstructured.Unstructured) {
			for _, doc := range strings.Split(a.Input[name], "\n---\n") {
				if strings.TrimSpace(doc) != "" {
					out = append(out, state(t, doc).Root)
				}
			}
			return out
		}
		s := observe.Status(read("definitions.yaml"), read("revisions.yaml"), read("instances.yaml"), read("managed.yaml"), now)
		for _, view := range []struct {
			name  string
			width int
		}{{"80", 80}, {"120", 120}} {
			text := s.Text(now, view.width)
			a.Record(view.name, text)
			golden.CheckWidth(t, view.name, text, view.width)
		}
		a.Record("json", string(s.JSON()))
		if s.IsReady() != (a.Name == "ready") {
			t.Errorf("ready: %t", s.IsReady())
		}
	})
}
