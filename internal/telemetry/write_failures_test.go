package telemetry_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/internal/telemetry"
)

type recorded []string

func (r *recorded) Event(_ runtime.Object, _ telemetry.Severity, reason, message string) {
	*r = append(*r, reason+": "+message)
}

func TestAWriteFailureIsOneEventUntilTheWriteSucceeds(t *testing.T) {
	var (
		events recorded
		r      telemetry.WriteFailures
		o      = &unstructured.Unstructured{}
	)
	refuse := func(reason, message string) { r.Record(&events, o, reason, message) }
	r.Clear(telemetry.FailedFinalizer)
	refuse(telemetry.FailedStatusUpdate, "no role")
	refuse(telemetry.FailedStatusUpdate, "no role")
	refuse(telemetry.FailedFinalizer, "no role")
	refuse(telemetry.FailedStatusUpdate, "a webhook")
	r.Clear(telemetry.FailedStatusUpdate)
	refuse(telemetry.FailedStatusUpdate, "a webhook")
	want := []string{"FailedStatusUpdate: no role", "FailedFinalizer: no role", "FailedStatusUpdate: a webhook", "FailedStatusUpdate: a webhook"}
	if !slices.Equal(events, want) {
		t.Errorf("got %q", []string(events))
	}
}
