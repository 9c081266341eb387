package operations

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	opsv1alpha1 "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/operation"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestOperationsContinueAfterACrash at each of their writes: the controllers stop after it, others begin, and each time of a schedule and
// each change has one operation that succeeds.
func TestOperationsContinueAfterACrash(t *testing.T) {
	w := newWorld(t)
	first := w.begin(t, w.config) // installs the kinds
	if err := first.WaitStarted(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	run := func(n int) (writes int) {
		cron, watch := fmt.Sprintf("crash-cron%d", n), fmt.Sprintf("crash-watch%d", n)
		w.set(time.Now())
		w.Apply(t, w.cron(cron, "@every 1h"))
		w.Apply(t, w.watch(watch, "concurrencyPolicy: Forbid,"))
		w.Apply(t, w.object(watch, watch, "text"))
		w.set(time.Now().Add(61 * time.Minute))
		crash := testkit.NewCrash(n)
		if n > 0 {
			crash.Log = func(text string) { t.Log(n, text) }
		}
		stop := crash.RunAndRestart(w.config, func(config *rest.Config) func() {
			c := w.begin(t, config)
			return func() { _ = c.Stop() } // an error after the crash is that of the connection
		})
		defer stop()
		w.awaitResult(t, watch, watch+" has text")
		w.Await(t, configMapKind, w.namespace, cron, suite.HasField("nothing", "data", "watched"))
		w.Await(t, operation.CronKind, "", cron, suite.All(hasNot("runningOperationRefs"), has("lastSuccessfulTime")))
		w.Await(t, operation.WatchKind, "", watch, suite.All(hasNot("runningOperationRefs"), has("lastSuccessfulTime")))
		for label, of := range map[string]string{opsv1alpha1.CronOperationLabel: cron, opsv1alpha1.WatchOperationLabel: watch} {
			made := w.operations(t, label, of)
			if len(made) != 1 {
				t.Errorf("after write %d, %s has %d operations", n, of, len(made))
			}
			for _, o := range made {
				if err := succeeded(o); err != nil {
					t.Errorf("after write %d: %v", n, err)
				}
			}
		}
		writes = crash.Writes()
		w.Delete(t, operation.CronKind, "", cron)
		w.Delete(t, operation.WatchKind, "", watch)
		return writes
	}
	writes := run(0)
	if writes < 10 {
		t.Fatalf("%d writes are too few", writes)
	}
	for n := 1; n <= writes; n += testkit.Size(3, 1) {
		run(n)
	}
}
