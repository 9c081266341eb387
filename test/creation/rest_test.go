package creation

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// TestSweepThousandsAtRest has many managed resources, and nothing to do about them:
// the API server is not written to, and the cloud is asked once a poll about each.
func TestSweepThousandsAtRest(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	sky := newCloud(cloud.Behaviour{})
	var counter testkit.Counter
	writes := testkit.Counter{Filter: testkit.IsWrite}
	counted := writes.Wrap(counter.Wrap(config))
	many := testkit.Size(60, 5000)
	poll := time.Duration(testkit.Size(5, 60)) * time.Second
	longest := poll + poll/10 // with its jitter
	stop := runWith(t, server.Options{Config: counted, Poll: poll, Workers: 16}, sky)
	defer func() { stop() }()
	ns := testkit.Namespace(t, config)
	begun := time.Now()
	for i := range many {
		w.Apply(t, fmt.Sprintf("apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: rest-%d-%s, namespace: %s}\nspec: {forProvider: {}}\n", i, ns, ns))
	}
	awaitEach(t, w, ns, many)
	made := time.Since(begun)
	cost := counter.Snapshot()

	resting := func() (string, testkit.RequestCounts, int) {
		before, reads, cpu := counter.Snapshot(), len(sky.Journal().Select(looks)), busy(t)
		timer := time.NewTimer(longest)
		<-timer.C // nothing announces that nothing happens
		return fmt.Sprintf("%.1f %% of one core", 100*float64(busy(t)-cpu)/float64(longest)), counter.Since(before), len(sky.Journal().Select(looks)) - reads
	}
	_, _, _ = resting() // the last writes are reported to the caches, and jitter spreads the looks
	cpu, asked, reads := resting()
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	testkit.Report(t, "creation: %d buckets made in %.1f s, %.1f requests each; at rest for %s: %d requests to the API server (%s), %d reads of the cloud, %s, %d MiB of heap",
		many, made.Seconds(), float64(cost.Total)/float64(many), longest, asked.Total, asked, reads, cpu, memory.HeapAlloc>>20)
	if asked.Total > 0 {
		t.Errorf("at rest the API server gets %d requests: %s", asked.Total, asked)
	}
	// In the longest time between two looks each resource is looked at once or twice.
	if reads > many*2 || reads < many*9/10 {
		t.Errorf("%d reads of the cloud in %s, of %d resources", reads, longest, many)
	}

	stop()
	before := writes.Snapshot()
	reads = len(sky.Journal().Select(looks))
	stop = runWith(t, server.Options{Config: counted, Poll: poll, Workers: 16}, sky)
	testkit.PollFor(t, crowd, "all are looked at after a restart", func() bool { return len(sky.Journal().Select(looks))-reads >= many })
	if restart := writes.Since(before); restart.Total > 0 {
		t.Errorf("a restart writes: %s", restart)
	}
	// One by one: the API server gives up on so many in one request.
	var deleting errgroup.Group
	deleting.SetLimit(16)
	buckets := w.Resource(t, bucket, ns)
	for i := range many {
		deleting.Go(func() error {
			return buckets.Delete(t.Context(), fmt.Sprintf("rest-%d-%s", i, ns), metav1.DeleteOptions{})
		})
	}
	if err := deleting.Wait(); err != nil {
		t.Fatal(err)
	}
	testkit.PollFor(t, crowd, "all are gone from the cloud", func() bool {
		return len(sky.Admin().Resources()) == 0
	})
	life{world: w, sky: sky}.awaitCleared(t, ns, "them all")
}

// crowd is how long thousands may take.
const crowd = 5 * time.Minute

// looks are the calls that look at one resource.
func looks(e cloud.Entry) bool { return e.Verb == cloud.VerbGet }

// busy is how long this process has used a core.
func busy(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// awaitEach watches a namespace's buckets until so many have been as they should be.
func awaitEach(t *testing.T, w *testkit.Cluster, ns string, many int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	events, err := w.Resource(t, bucket, ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	ready := map[string]struct{}{}
	for event := range events.ResultChan() {
		o, _ := event.Object.(*unstructured.Unstructured)
		if o != nil && isSynced(1)(o) == nil && testkit.IsReady(o) == nil {
			ready[o.GetName()] = struct{}{}
		}
		if len(ready) == many {
			return
		}
	}
	t.Fatalf("%d of %d are ready", len(ready), many)
}
