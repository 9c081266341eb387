package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// metrics are the values of a collector by the name and labels of their series.
func metrics(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := []string{f.GetName()}
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			out[strings.Join(labels, " ")] = m.GetGauge().GetValue()
		}
	}
	return out
}

func TestMetricsSumUpTheQueuesOfAKind(t *testing.T) {
	onWorld(t, 10, func(_ *world, e *Engine) {
		e.Start(widget, reconciles(hangs), nil)
		parts := e.Start(part, reconciles(func(_ context.Context, key object.Key) reconcile.Result {
			if key.Name == "bad" {
				return reconcile.Fail(errors.New("no"))
			}
			return reconcile.Done()
		}), nil)
		parts.Enqueue(key("good"), watch.Normal)
		parts.Enqueue(key("bad"), watch.Normal)
		synctest.Wait()
		go e.Start(widget, &witness{}, nil) // has a kind queue already, and waits for the reconciles of the first
		synctest.Wait()
		e.running[widget.GroupKind()].Enqueue(widgetKey(0), watch.Normal) // too late
		want := map[string]float64{
			"espalier_queue_active test.dev Widget": 3, "espalier_queue_depth test.dev Widget": 0, "espalier_queue_retries test.dev Widget": 0,
			"espalier_queue_active test.dev Part": 0, "espalier_queue_depth test.dev Part": 0, "espalier_queue_retries test.dev Part": 1,
		}
		kinds := e.Kinds()
		slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.Kind, b.Kind) })
		if diff := cmp.Diff([]schema.GroupVersionKind{part, widget}, kinds); diff != "" {
			t.Errorf("the kinds differ (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, metrics(t, e.Collector())); diff != "" {
			t.Errorf("while a successor waits (-want +got):\n%s", diff)
		}
		<-time.After(stopGrace)
		synctest.Wait()
	})
}

func TestMetricsCountWaitingItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOver(newWorld(0), Config{})
		c := e.Start(widget, &witness{}, nil)
		for n := range 7 {
			c.Enqueue(widgetKey(n), watch.Priority(n%3))
			c.Enqueue(widgetKey(n), watch.Urgent)
		}
		if got := metrics(t, e.Collector())["espalier_queue_depth test.dev Widget"]; got != 7 {
			t.Errorf("7 objects wait, not %v", got)
		}
		c.Stop()
		if diff := cmp.Diff(map[string]float64{}, metrics(t, e.Collector())); diff != "" {
			t.Errorf("what isn't served has no metrics (-want +got):\n%s", diff)
		}
	})
}

func TestStatsSaySinceWhenRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOver(newWorld(0), Config{})
		began := time.Now()
		c := e.Start(widget, &witness{}, nil)
		e.Start(part, &witness{}, nil)
		for n := range 4 {
			<-time.After(time.Second)
			c.Enqueue(widgetKey(n), watch.Priority(n%3))
		}
		want := []Stats{{Kind: part.GroupKind()}, {Kind: widget.GroupKind(), Depth: 4, Since: began.Add(time.Second)}}
		if diff := cmp.Diff(want, e.Stats()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		c.Stop()
	})
}

func TestDefaultsOfAnEngine(t *testing.T) {
	for name, tc := range map[string]struct{ given, want Config }{
		"unset":    {Config{}, Config{Workers: 1, Timeout: time.Minute}},
		"negative": {Config{Workers: -1, Timeout: -1}, Config{Workers: 1, Timeout: time.Minute}},
		"set":      {Config{Workers: 7, Timeout: 1}, Config{Workers: 7, Timeout: 1}},
	} {
		if e := New(tc.given); e.Workers != tc.want.Workers || e.Timeout != tc.want.Timeout {
			t.Errorf("%s: %d workers, %s for a reconcile", name, e.Workers, e.Timeout)
		}
	}
}
