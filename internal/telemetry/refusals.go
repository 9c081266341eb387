package telemetry

import "k8s.io/apimachinery/pkg/runtime"

// Refusals are the writes to one object's own status and finalizers that are refused. The
// status can't tell of that, so that events do: once for each refusal, until the write is
// granted. The zero value is ready to use; it belongs to the passes over its object.
type Refusals struct{ told map[string]string }

// Reasons of events about writes that are refused.
const (
	FailedStatusUpdate = "FailedStatusUpdate"
	FailedFinalizer    = "FailedFinalizer"
)

// Refused tells why a write is refused, if that is news.
func (r *Refusals) Refused(to Recorder, about runtime.Object, reason, message string) {
	if r.told[reason] == message {
		return
	}
	if r.told == nil {
		r.told = map[string]string{}
	}
	r.told[reason] = message
	to.Event(about, Warning, reason, message)
}

// Granted notes that a write is granted.
func (r *Refusals) Granted(reason string) { delete(r.told, reason) }
