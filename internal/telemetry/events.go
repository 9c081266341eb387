// Package telemetry is what the controllers report about their work: events on transitions,
// and metrics.
package telemetry

import (
	"fmt"
	"hash/fnv"

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

// Recorder records events about objects. Implementations do not block and are safe for
// concurrent use.
type Recorder interface {
	Event(about runtime.Object, severity Severity, reason, message string)
}

// NoEvents drops all events: those of a simulation must not be written to the cluster.
type NoEvents struct{}

// Event implements Recorder.
func (NoEvents) Event(runtime.Object, Severity, string, string) {}

// NewRecorder returns a Recorder that writes Kubernetes events.
func NewRecorder(to events.EventRecorder) Recorder { return recorder{to} }

type recorder struct{ to events.EventRecorder }

// How many bytes the API server accepts in an event's note and reason.
const (
	maxNote   = 1024
	maxReason = 128
)

func (r recorder) Event(about runtime.Object, severity Severity, reason, message string) {
	note := diag.TruncateMiddle(message, maxNote)
	r.to.Eventf(about, nil, string(severity), diag.Truncate(reason, maxReason), actionOf(note), "%s", note)
}

// maxSeries bounds the series of one revision of an object with one reason: the messages of a function may always differ.
const maxSeries = 1024

// actionOf is the action of an event. Events of the same revision of an object with the same reason and action are one
// series, which has one of their notes; so events with different notes have different actions.
func actionOf(note string) string {
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(note)) // never fails
	return fmt.Sprintf("Reconcile-%03x", digest.Sum32()%maxSeries)
}
