package operations

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	opsv1alpha1 "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/operation"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func (w *world) cron(name, schedule string, more ...string) string {
	return fmt.Sprintf("{apiVersion: ops.crossplane.io/v1alpha1, kind: CronOperation, metadata: {name: %s}, spec: {schedule: %q, %s operationTemplate: "+
		"{metadata: {labels: {mine: label}}, spec: %s}}}", name, schedule, first(more), w.spec(name, more[min(1, len(more)):]...))
}

// operations are those with a label, by their names.
func (w *world) operations(t *testing.T, label, of string) map[string]*unstructured.Unstructured {
	t.Helper()
	out := map[string]*unstructured.Unstructured{}
	all := w.List(t, operation.Kind, "", label+"="+of)
	for i := range all {
		out[all[i].GetName()] = &all[i]
	}
	return out
}

// wakeAt has a CronOperation reconciled a minute after an hour that follows its creation, and returns the hour, and the name of its operation.
func (w *world) wakeAt(t *testing.T, name string, hour int) (slot time.Time, operationName string) {
	t.Helper()
	slot = w.Get(t, operation.CronKind, "", name).GetCreationTimestamp().UTC().Truncate(time.Hour).Add(time.Duration(hour) * time.Hour)
	w.set(slot.Add(time.Minute))
	w.Patch(t, operation.CronKind, "", name, fmt.Sprintf(`{"metadata": {"annotations": {"hour": "%d"}}}`, hour))
	return slot, fmt.Sprintf("%s-%d", name, slot.Unix())
}

// TestACronOperationMakesOperations at its times, once for several that have passed, and keeps as many as it should; nothing is written in
// between, nor after a restart.
func TestACronOperationMakesOperations(t *testing.T) {
	w := newWorld(t)
	c := w.start(t)
	w.Apply(t, w.cron("hourly", "0 * * * *", "successfulHistoryLimit: 1,"))
	w.Await(t, operation.CronKind, "", "hourly", suite.All(suite.HasCondition("Scheduling", "True", "ScheduleActive"), suite.HasCondition("Synced", "True", "ReconcileSuccess")))
	if made := w.operations(t, opsv1alpha1.CronOperationLabel, "hourly"); len(made) != 0 {
		t.Fatalf("%d operations before the first time", len(made))
	}
	for _, hour := range []int{1, 5} {
		slot, name := w.wakeAt(t, "hourly", hour)
		o := w.Await(t, operation.Kind, "", name, succeeded)
		if o.GetLabels()["mine"] != "label" || len(o.GetOwnerReferences()) != 1 || o.GetOwnerReferences()[0].Name != "hourly" {
			t.Errorf("metadata: %s", testkit.JSON(o))
		}
		w.Await(t, operation.CronKind, "", "hourly", suite.All(suite.HasField(slot.Format(time.RFC3339), "status", "lastScheduleTime"), hasNot("runningOperationRefs")))
		w.AwaitList(t, operation.Kind, "", opsv1alpha1.CronOperationLabel+"=hourly", func(all map[string]*unstructured.Unstructured) error {
			if len(all) != 1 {
				return fmt.Errorf("there are %d operations", len(all))
			}
			return nil
		})
	}
	if calls := w.called("hourly"); calls != 2 {
		t.Errorf("the function was called %d times", calls)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	before := len(w.written())
	w.start(t)
	w.Apply(t, w.cron("other", "0 0 30 2 *")) // no such day
	w.Await(t, operation.CronKind, "", "other", suite.HasCondition("Scheduling", "True", "ScheduleActive"))
	if calls := w.called("hourly"); calls != 2 {
		t.Errorf("after a restart the function was called %d times", calls)
	}
	if writes := w.written()[before:]; len(writes) != 1 || !strings.HasSuffix(writes[0], "/cronoperations/other/status") {
		t.Errorf("after a restart: %v", writes)
	}
}

func hasNot(field string) suite.Check {
	return func(o *unstructured.Unstructured) error {
		if value, found, _ := unstructured.NestedFieldNoCopy(o.Object, "status", field); found {
			return fmt.Errorf("status.%s is %v", field, value)
		}
		return nil
	}
}

func has(field string) suite.Check {
	return func(o *unstructured.Unstructured) error {
		if hasNot(field)(o) == nil {
			return fmt.Errorf("there is no status.%s", field)
		}
		return nil
	}
}

// TestConcurrentOperationsOfACronOperation wait for the running one, or replace it, as the policy says.
func TestConcurrentOperationsOfACronOperation(t *testing.T) {
	w := newWorld(t)
	w.start(t)
	for policy, want := range map[string]int{"Forbid": 1, "Replace": 1, "Allow": 2} {
		t.Run(policy, func(t *testing.T) {
			w.set(time.Now())
			name := "policy-" + map[string]string{"Forbid": "f", "Replace": "r", "Allow": "a"}[policy]
			release := w.block(name)
			w.Apply(t, w.cron(name, "0 * * * *", "concurrencyPolicy: "+policy+","))
			w.Await(t, operation.CronKind, "", name, suite.HasCondition("Scheduling", "True", "ScheduleActive"))
			_, former := w.wakeAt(t, name, 1)
			w.Await(t, operation.Kind, "", former, suite.HasCondition("Succeeded", "Unknown", "PipelineRunning"))
			_, next := w.wakeAt(t, name, 2)
			if policy == "Forbid" {
				w.Await(t, operation.CronKind, "", name, suite.HasCondition("Scheduling", "True", "ScheduleActive", "still runs"))
			} else {
				w.Await(t, operation.Kind, "", next, suite.IsPresent)
			}
			if policy == "Replace" {
				w.AwaitGone(t, operation.Kind, "", former)
			}
			if made := w.operations(t, opsv1alpha1.CronOperationLabel, name); len(made) != want {
				t.Errorf("%d operations rather than %d", len(made), want)
			}
			release()
			w.Await(t, operation.Kind, "", next, succeeded) // also under Forbid: the time is not dropped
		})
	}
}

// TestAnInvalidScheduleIsReported, and a paused CronOperation makes nothing.
func TestAnInvalidScheduleIsReported(t *testing.T) {
	w := newWorld(t)
	w.start(t)
	w.Apply(t, w.cron("invalid", "61 * * * *"))
	w.Await(t, operation.CronKind, "", "invalid", suite.HasCondition("Scheduling", "False", "ScheduleInvalid", "is no schedule"))
	w.Patch(t, operation.CronKind, "", "invalid", `{"metadata": {"annotations": {"crossplane.io/paused": "true"}}, "spec": {"schedule": "* * * * *"}}`)
	w.Await(t, operation.CronKind, "", "invalid", suite.All(suite.HasCondition("Scheduling", "False", "SchedulePaused"), suite.HasCondition("Synced", "False", "ReconcilePaused")))
}
