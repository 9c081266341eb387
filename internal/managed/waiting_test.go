package managed

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
)

// observed is a session whose observations are among the requests.
type observed struct {
	port.Session
	w *world
}

func (s observed) Observe(ctx context.Context, ref external.Ref) (external.Observation, error) {
	s.w.Requests = append(s.w.Requests, "call observe "+string(ref))
	return s.Session.Observe(ctx, ref)
}

// TestCallsOfTheExternalAPIAreWaits creates, polls and deletes an external resource: its worker may be given away during
// the calls of the external API, and not while the API server is written to.
func TestCallsOfTheExternalAPIAreWaits(t *testing.T) {
	w := newWorld(database, network)
	w.cloud.slow = 1
	ctx := queue.WithCalling(context.Background(), func() (end func()) {
		w.Requests = append(w.Requests, "waits")
		return func() { w.Requests = append(w.Requests, "goes on") }
	})
	connect := w.r.Port.Connect
	w.r.Port.Connect = func(ctx context.Context, objects port.Objects, o *unstructured.Unstructured) (port.Session, error) {
		w.Requests = append(w.Requests, "call connect db")
		connected, err := connect(ctx, objects, o)
		return observed{connected, w}, err
	}
	calls := map[string]bool{}
	reconcile := func() {
		for range 4 {
			w.Writes()
			w.r.Reconcile(ctx, databaseKey)
			isWaiting := false
			for _, request := range w.Writes() {
				verb, rest, _ := strings.Cut(request, " ")
				switch {
				case request == "waits", request == "goes on":
					isWaiting = request == "waits"
				case (verb == "call") != isWaiting:
					t.Errorf("%s: waiting %t", request, isWaiting)
				case verb == "call":
					call, _, _ := strings.Cut(rest, " ")
					calls[call] = true
				}
			}
			w.now = w.now.Add(w.r.PollInterval)
		}
	}
	reconcile()
	w.Change(databaseKey, deleted)
	reconcile()
	for _, call := range []string{"connect", "observe", "Create", "poll", "Delete"} {
		if !calls[call] {
			t.Errorf("no %s", call)
		}
	}
}
