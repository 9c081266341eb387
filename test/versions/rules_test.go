package versions

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestAnAnnotationBreaksNoRule has a client of the old version set a field that only the new one has, by the
// annotation that keeps it.
func TestAnAnnotationBreaksNoRule(t *testing.T) {
	w := newProgram(t)
	w.put(t, strings.Replace(definition(both), "probe: string", `probe: "string | validation=\"self.startsWith('/team/')\""`, 1))
	w.AwaitReady(t, rgd, "", w.group)
	w.put(t, strings.ReplaceAll(old, "$NAME", "a"))
	w.awaitData(t, "a", map[string]string{"replicas": "5", "probe": "none"})

	keep := func(value string) error {
		return w.patch(t, "v1alpha1", "a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"espalier.dev/kept-v1": `[{"at":["probe"],"was":"` + value + `"}]`}}})
	}
	if err := keep("/platform/up"); err == nil || !strings.Contains(err.Error(), "spec.probe") {
		t.Errorf("the rule is broken: %v", err)
	}
	if o := w.in(t, "v1", "a"); spec(o, "probe") != nil {
		t.Errorf("in v1 the instance is %s", testkit.JSON(o))
	}
	noError(t, keep("/team/up"))
	w.awaitData(t, "a", map[string]string{"probe": "/team/up"})
}
