package watch

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// BenchmarkEvent measures from an event's arrival on the watch until its one
// subscriber is woken, beside 10,000 instances with 50,000 children of one kind.
func BenchmarkEvent(b *testing.B) {
	const instances, children = 10_000, 5
	source := newScript()
	for i := range instances {
		for n := range children {
			o := childOf(b, i, n)
			source.objects[nameOf(o)] = o
		}
	}
	source.revision = instances * children * 2
	woken := make(chan Cause, instances)
	s := newScriptedHub(scripts{configMap: source})
	s.env.Enqueue = func(_ Subscriber, c Cause) { woken <- c }
	before := heap()
	for i := range instances {
		s.commit(fmt.Sprint("instance-", i), ChildrenOf(configMap, fmt.Sprintf("applyset-%032d-v1", i)))
	}
	b.Logf("a subscriber takes %d bytes", (heap()-before)/instances)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	began := time.Now()
	go func() { ended <- s.Run(ctx) }()
	for range instances {
		<-woken // each is notified once that the kind is synced
	}
	b.Logf("%d objects and %d subscribers synced in %s", instances*children, instances, time.Since(began))

	var took []time.Duration
	i := 0
	for b.Loop() {
		i = (i + 7919) % instances
		o := source.write(childOf(b, i, i%children))
		sent := time.Now()
		source.deliver(apiwatch.Modified, o)
		<-woken
		took = append(took, time.Since(sent))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
	cancel()
	<-ended
}
