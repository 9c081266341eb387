package telemetry

import "k8s.io/apimachinery/pkg/runtime"

// WriteFailures records events about failed writes of one object's own status and
// finalizers, which its status cannot report: one event for each failure, until the write
// succeeds. The zero value is ready to use. It is not safe for concurrent use: the
// reconciles of the object own it.
type WriteFailures struct{ recorded map[string]string }

// Reasons of events about failed writes.
const (
	FailedStatusUpdate = "FailedStatusUpdate"
	FailedFinalizer    = "FailedFinalizer"
)

// Record records an event about a failed write, unless the last event for the same reason had
// the same message.
func (r *WriteFailures) Record(to Recorder, about runtime.Object, reason, message string) {
	if r.recorded[reason] == message {
		return
	}
	if r.recorded == nil {
		r.recorded = map[string]string{}
	}
	r.recorded[reason] = message
	to.Event(about, Warning, reason, message)
}

// Clear records that the write succeeded: its next failure is an event again.
func (r *WriteFailures) Clear(reason string) { delete(r.recorded, reason) }
