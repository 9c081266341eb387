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

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// TestSweepThousandsOfIdleResources has many managed resources without changes: the controllers send
// no request to the API server, and read each external resource once in a poll interval.
func TestSweepThousandsOfIdleResources(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	fakeCloud := newCloud(cloud.Behaviour{})
	var counter testkit.Counter
	writes := testkit.Counter{Filter: testkit.IsWrite}
	counted := writes.Wrap(counter.Wrap(config))
	many := testkit.Size(60, 5000)
	poll := time.Duration(testkit.Size(5, 60)) * time.Second
	longest := poll + poll/10 // with its jitter
	stop := runWith(t, server.Options{Config: counted, Settings: server.Settings{Poll: metav1.Duration{Duration: poll}, Workers: 16}}, fakeCloud)
	defer func() { stop() }()
	ns := testkit.Namespace(t, config)
	begun := time.Now()
	for i := range many {
		w.Apply(t, fmt.Sprintf("apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: rest-%d-%s, namespace: %s}\nspec: {forProvider: {}}\n", i, ns, ns))
	}
	awaitEach(t, w, ns, many)
	made := time.Since(begun)
	cost := counter.Snapshot()

	idle := func() (string, testkit.RequestCounts, int) {
		before, reads, cpu := counter.Snapshot(), len(fakeCloud.Journal().Select(isRead)), cpuTime(t)
		timer := time.NewTimer(longest)
		<-timer.C // no event shows that nothing happens
		return fmt.Sprintf("%.1f %% of one core", 100*float64(cpuTime(t)-cpu)/float64(longest)), counter.Since(before), len(fakeCloud.Journal().Select(isRead)) - reads
	}
	_, _, _ = idle() // the caches get the last writes, and jitter spreads the reads
	cpu, sent, reads := idle()
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	testkit.Report(t, "creation: %d buckets created in %.1f s, %.1f requests each; idle for %s: %d requests to the API server (%s), %d reads of the cloud, %s, %d MiB of heap",
		many, made.Seconds(), float64(cost.Total)/float64(many), longest, sent.Total, sent, reads, cpu, memory.HeapAlloc>>20)
	if sent.Total > 0 {
		t.Errorf("the API server gets %d requests of idle controllers: %s", sent.Total, sent)
	}
	// In the longest interval between two reads each resource is read once or twice.
	if reads > many*2 || reads < many*9/10 {
		t.Errorf("%d reads of the cloud in %s, of %d resources", reads, longest, many)
	}

	stop()
	before := writes.Snapshot()
	reads = len(fakeCloud.Journal().Select(isRead))
	stop = runWith(t, server.Options{Config: counted, Settings: server.Settings{Poll: metav1.Duration{Duration: poll}, Workers: 16}}, fakeCloud)
	testkit.PollFor(t, thousandsTimeout, "all are read after a restart", func() bool { return len(fakeCloud.Journal().Select(isRead))-reads >= many })
	if restart := writes.Since(before); restart.Total > 0 {
		t.Errorf("a restart writes: %s", restart)
	}
	// One by one, since one request for so many times out.
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
	testkit.PollFor(t, thousandsTimeout, "all are deleted in the cloud", func() bool {
		return len(fakeCloud.Admin().Resources()) == 0
	})
	lifecycle{cluster: w, cloud: fakeCloud}.awaitNoBindings(t, ns, "all buckets")
}

// thousandsTimeout is how long thousands of resources may take.
const thousandsTimeout = 5 * time.Minute

// isRead selects the calls that read one resource.
func isRead(e cloud.Entry) bool { return e.Verb == cloud.VerbGet }

// cpuTime is the processor time of this process.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// awaitEach watches a namespace's buckets until so many have been synced and ready.
func awaitEach(t *testing.T, w *testkit.Cluster, ns string, many int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ready := map[string]struct{}{}
	for ctx.Err() == nil { // the API server ends a watch when it serves the kind anew; the next one begins with all that exist
		events, err := w.Resource(t, bucket, ns).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for event := range events.ResultChan() {
			o, _ := event.Object.(*unstructured.Unstructured)
			if o != nil && isSynced(1)(o) == nil && testkit.IsReady(o) == nil {
				ready[o.GetName()] = struct{}{}
			}
			if len(ready) == many {
				events.Stop()
				return
			}
		}
	}
	t.Fatalf("%d of %d are ready", len(ready), many)
}
