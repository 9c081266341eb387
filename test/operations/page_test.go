package operations

import (
	"context"
	"os"
	"regexp"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/composition/operation"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestTheExamplesOfThePage are applied in order, and do what the page says.
func TestTheExamplesOfThePage(t *testing.T) {
	raw, err := os.ReadFile("../../docs/operation-kinds.md")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.start(t)
	t.Cleanup(func() {
		for _, name := range []string{"settings", "count", "nightly", "audit-settings"} {
			_ = w.Resource(t, configMapKind, "default").Delete(context.Background(), name, metav1.DeleteOptions{})
		}
	})
	w.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default, labels: {counted: "true", audited: "true"}}}`)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(raw), -1)
	if len(blocks) != 4 {
		t.Fatalf("the page has %d examples", len(blocks))
	}
	for _, b := range blocks {
		w.Apply(t, b[1])
	}
	w.Await(t, operation.Kind, "", "count", succeeded)
	w.Await(t, configMapKind, "default", "count", suite.HasField("1", "data", "count"))
	w.Await(t, configMapKind, "default", "audit-settings", suite.HasField("false", "data", "deleted"))
	w.Delete(t, configMapKind, "default", "settings")
	w.Await(t, configMapKind, "default", "audit-settings", suite.HasField("true", "data", "deleted"))
	w.Await(t, operation.CronKind, "", "nightly", suite.HasCondition("Scheduling", "True", "ScheduleActive"))
	w.set(w.now().Add(25 * time.Hour))
	w.Patch(t, operation.CronKind, "", "nightly", `{"spec": {"startingDeadlineSeconds": 90000}}`) // the time is at most a day ago
	w.Await(t, configMapKind, "default", "nightly", suite.IsPresent)
}
