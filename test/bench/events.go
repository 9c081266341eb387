package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
)

// events is how many changes of children are followed to their instance's pass.
const events = 2_000

// firstReconciles reports the first pass over an object from when it is expected on.
type firstReconciles struct {
	mu       sync.Mutex
	expected map[object.Key]chan reconcile.Run
}

func (a *firstReconciles) expect(key object.Key) <-chan reconcile.Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.expected == nil {
		a.expected = map[object.Key]chan reconcile.Run{}
	}
	passes := make(chan reconcile.Run, 1)
	a.expected[key] = passes
	return passes
}

func (a *firstReconciles) observe(p reconcile.Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if passes, ok := a.expected[p.Key]; ok {
		delete(a.expected, p.Key)
		passes <- p
	}
}

// events changes children, one after the other, in something that their instances
// do not care for, and measures how long it takes until the right instance is
// looked at.
func (f flatInstances) events(ctx context.Context, prefix string, n int) error {
	var sinceSent, sinceAnswer, inQueue []time.Duration
	for k := range events {
		name := numberedName(prefix, k*7919%n) // far apart, each in its turn
		passed := f.engine.expect(object.Key{Group: group, Kind: "Flat", Namespace: namespace, Name: name})
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"bench.espalier.dev/touched":"%d"}}}`, k)
		sent := time.Now()
		if _, err := f.resource(configMaps).Patch(ctx, name+"-a", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}); err != nil {
			return err
		}
		answered := time.Now()
		select {
		case p := <-passed:
			sinceSent = append(sinceSent, p.Began.Sub(sent))
			sinceAnswer = append(sinceAnswer, max(0, p.Began.Sub(answered)))
			inQueue = append(inQueue, p.Waited)
		case <-time.After(waitTimeout):
			return fmt.Errorf("a change of %s-a didn't reach its instance", name)
		}
	}
	f.add(row{
		Work: fmt.Sprintf("an event reaches the right one of %d instances, beside %d children of its kind, p99", n, 5*n), Unit: "ms",
		Value: milliseconds(quantile(sinceAnswer, 0.99)), Budget: 5,
		Detail: fmt.Sprintf("of %d, from the answer to the write until the pass begins; median %.2f ms; from sending the write %.2f and %.2f ms; in the queue %.2f and %.2f ms",
			len(sinceSent), milliseconds(median(sinceAnswer)), milliseconds(median(sinceSent)), milliseconds(quantile(sinceSent, 0.99)),
			milliseconds(median(inQueue)), milliseconds(quantile(inQueue, 0.99))),
	})
	return nil
}
