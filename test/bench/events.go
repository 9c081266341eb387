package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// events is how many changes of children are measured.
const events = 2_000

// firstReconciles reports the first reconcile of an object after expect.
type firstReconciles struct {
	mu       sync.Mutex
	expected map[object.Key]chan reconcile.Run
}

func (f *firstReconciles) expect(key object.Key) <-chan reconcile.Run {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.expected == nil {
		f.expected = map[object.Key]chan reconcile.Run{}
	}
	runs := make(chan reconcile.Run, 1)
	f.expected[key] = runs
	return runs
}

func (f *firstReconciles) observe(run reconcile.Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if runs, ok := f.expected[run.Key]; ok {
		delete(f.expected, run.Key)
		runs <- run
	}
}

// events changes an annotation of one child after the other, which their instances do not manage,
// and measures how long it takes until the instance is reconciled.
func (f flatInstances) events(ctx context.Context, prefix string, n int) error {
	var sinceSent, sinceAnswer, inQueue []time.Duration
	for k := range events {
		name := numberedName(prefix, k*7919%n) // a different instance each time, in no order
		reconciled := f.engine.expect(object.Key{Group: group, Kind: "Flat", Namespace: namespace, Name: name})
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"bench.espalier.dev/touched":"%d"}}}`, k)
		sent := time.Now()
		if _, err := f.resource(configMaps).Patch(ctx, name+"-a", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}); err != nil {
			return err
		}
		answered := time.Now()
		select {
		case run := <-reconciled:
			sinceSent = append(sinceSent, run.Began.Sub(sent))
			sinceAnswer = append(sinceAnswer, max(0, run.Began.Sub(answered)))
			inQueue = append(inQueue, run.Waited)
		case <-time.After(f.waitTimeout()):
			return fmt.Errorf("ConfigMap %s-a was changed, and its instance was not reconciled", name)
		}
	}
	f.add(row{
		Work: fmt.Sprintf("from the event of a child until the reconcile of its instance, with %d instances and %d children, p99", n, 5*n), Unit: "ms",
		Value: milliseconds(quantile(sinceAnswer, 0.99)), Budget: 5,
		Detail: fmt.Sprintf("of %d, from the response to the write until the reconcile begins; median %.2f ms; since the write was sent: median %.2f ms, p99 %.2f ms; in the queue: median %.2f ms, p99 %.2f ms",
			len(sinceSent), milliseconds(median(sinceAnswer)), milliseconds(median(sinceSent)), milliseconds(quantile(sinceSent, 0.99)),
			milliseconds(median(inQueue)), milliseconds(quantile(inQueue, 0.99))),
	})
	return nil
}
