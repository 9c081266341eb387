package takeover

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// history has each state of the conditions of all instances since before the controllers started, for messages of
// tests about conditions that flap.
var history conditionHistory

type conditionHistory struct {
	mu  sync.Mutex
	all map[object.Key][]string
}

// follow watches the instances among some objects until the end of the tests.
func (h *conditionHistory) follow(t *testing.T, w *testkit.Cluster, objects map[string]*unstructured.Unstructured) {
	t.Helper()
	h.all = map[object.Key][]string{}
	ctx, stop := context.WithCancel(context.Background())
	testkit.AtExit(stop)
	followed := map[schema.GroupVersionKind]bool{}
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		if !isInstance(o) || followed[gvk] {
			continue
		}
		followed[gvk] = true
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		events, err := w.Client.Resource(resource).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			continue // the history is only for messages
		}
		go func() {
			for event := range events.ResultChan() {
				if o, ok := event.Object.(*unstructured.Unstructured); ok {
					h.add(o)
				}
			}
		}()
	}
}

func (h *conditionHistory) add(o *unstructured.Unstructured) {
	var texts []string
	for _, c := range condition.Read(o) {
		texts = append(texts, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	text := strings.Join(texts, "; ")
	h.mu.Lock()
	defer h.mu.Unlock()
	key := object.KeyOf(o)
	if known := h.all[key]; len(known) == 0 || !strings.HasSuffix(known[len(known)-1], text) {
		h.all[key] = append(known, time.Now().Format("15:04:05.000 ")+text)
	}
}

// of returns the states of an object, a line each.
func (h *conditionHistory) of(o *unstructured.Unstructured) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.all[object.KeyOf(o)], "\n")
}
