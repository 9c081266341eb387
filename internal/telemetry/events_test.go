package telemetry_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/espalier-dev/espalier/internal/telemetry"
)

// sink takes the place of the API server.
type sink struct{ created, repeated chan string }

func (s sink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.created <- e.Note
	return e, nil
}
func (s sink) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) { return e, nil }
func (s sink) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	s.repeated <- e.Note
	return e, nil
}

func TestEventsWithOneReasonAreRecordedWithEachMessage(t *testing.T) {
	to := sink{make(chan string, 10), make(chan string, 10)}
	broadcaster := events.NewBroadcaster(to)
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broadcaster.Shutdown)
	recorder := telemetry.NewRecorder(broadcaster.NewRecorder(scheme.Scheme, "espalier"))
	about := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod", ResourceVersion: "7"}}
	messages := []string{"no image", "no region", "no size"}
	for _, message := range messages {
		recorder.Event(about, telemetry.Warning, "ComposeResources", message)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	next := func(from <-chan string) string {
		select {
		case note := <-from:
			return note
		case <-ctx.Done():
			return "no event"
		}
	}
	got := []string{next(to.created), next(to.created), next(to.created)}
	slices.Sort(got) // each is recorded by a goroutine of its own
	if diff := cmp.Diff(messages, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	recorder.Event(about, telemetry.Warning, "ComposeResources", "no image")
	if got := next(to.repeated); got != "no image" {
		t.Errorf("want the same event counted, got %q", got)
	}
}
