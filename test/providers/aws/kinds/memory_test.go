package kinds

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/naming"
)

// maxKindMemory is how much memory of the API server a served and watched kind may take, in bytes of its heap.
const maxKindMemory = 8 << 20

// TestMemoryOfKinds measures the memory of the API server with kinds that nothing reads, and with kinds that are
// watched, as the provider watches those that are activated. It takes minutes, so that only full runs have it.
func TestMemoryOfKinds(t *testing.T) {
	if testkit.Size(0, 1) == 0 {
		t.Skip("takes minutes; set ESPALIER_TEST_FULL")
	}
	config := testkit.ExclusiveServer(t)
	config.QPS = -1
	c := testkit.NewCluster(t, config)
	known, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	metrics := known.RESTClient()
	watcher, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	counts := []int{100, 300}
	kinds := mixed(counts[len(counts)-1])
	before := measure(t, metrics)
	testkit.Report(t, "memory of kinds: the API server without: %s", before)
	installed := 0
	for _, n := range counts {
		for _, name := range kinds[installed:n] {
			install(t, c, name, false)
		}
		installed = n
		after := measure(t, metrics)
		testkit.Report(t, "memory of kinds: %d that nothing reads: %s each, %s", n, after.minus(before).over(n), after)
	}
	for _, name := range kinds {
		watch(t, watcher, name)
	}
	after := measure(t, metrics)
	each := after.minus(before).over(installed)
	testkit.Report(t, "memory of kinds: %d that are watched: %s each, %s", installed, each, after)
	if each.heap > maxKindMemory {
		t.Errorf("a watched kind takes %s", each)
	}
}

// mixed returns types from the whole catalog, so that they, and the first of them, are of all sizes.
func mixed(n int) []string {
	const stride = 677 // a prime number
	names := catalog.Names()
	var out []string
	for i := range n {
		out = append(out, names[i*stride%len(names)])
	}
	return out
}

// watch lists a kind and keeps a watch of it until the test ends.
func watch(t *testing.T, client dynamic.Interface, name string) {
	t.Helper()
	kind, err := naming.Of(name, false)
	if err != nil {
		t.Fatal(err)
	}
	resource := client.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.GroupVersionKind().Version, Resource: kind.Plural})
	list, err := resource.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := resource.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
}

// usage is the memory of a process in bytes: the least of its heap around garbage collections, and what it has of the
// machine.
type usage struct{ heap, resident int64 }

func (u usage) minus(other usage) usage {
	return usage{u.heap - other.heap, u.resident - other.resident}
}
func (u usage) over(n int) usage { return usage{u.heap / int64(n), u.resident / int64(n)} }

func (u usage) String() string {
	return fmt.Sprintf("%d kB of heap (%d kB resident)", u.heap>>10, u.resident>>10)
}

// measure reads the metrics of the API server during a few garbage collections, which its answers bring about.
func measure(t *testing.T, client rest.Interface) usage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var least usage
	for first := -1.0; ; {
		values := readMetrics(ctx, t, client)
		collections, heap := values["go_gc_duration_seconds_count"], int64(values["go_memstats_heap_alloc_bytes"])
		if first < 0 {
			first = collections
		}
		if collections > first && (least.heap == 0 || heap < least.heap) {
			least = usage{heap, int64(values["process_resident_memory_bytes"])}
		}
		if collections >= first+4 {
			return least
		}
	}
}

func readMetrics(ctx context.Context, t *testing.T, client rest.Interface) map[string]float64 {
	t.Helper()
	raw, err := client.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	lines := bufio.NewReader(bytes.NewReader(raw))
	for {
		line, err := lines.ReadString('\n')
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(name, "#") {
			if number, err := strconv.ParseFloat(value, 64); err == nil {
				out[name] = number
			}
		}
		if err == io.EOF {
			return out
		}
	}
}
