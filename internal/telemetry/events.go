// Package telemetry is what the program tells about itself: events on
// transitions, metrics, and the keys that logs share.
package telemetry

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/espalier-dev/espalier/internal/diag"
)

// Severity is the type of an event.
type Severity string

// Severities, as Kubernetes names them.
const (
	Normal  Severity = "Normal"
	Warning Severity = "Warning"
)

// Recorder tells the people who look at an object that something happened to
// it. Implementations don't block and are safe for concurrent use.
type Recorder interface {
	Event(about runtime.Object, severity Severity, reason, message string)
}

// NewRecorder returns a Recorder that writes Kubernetes events.
func NewRecorder(to events.EventRecorder) Recorder { return recorder{to} }

type recorder struct{ to events.EventRecorder }

// longestNote is what the API server accepts as an event's note.
const longestNote = 1024

func (r recorder) Event(about runtime.Object, severity Severity, reason, message string) {
	r.to.Eventf(about, nil, string(severity), reason, "Reconcile", "%s", diag.Shorten(message, longestNote))
}
