package watches

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// usage is what running controllers use.
type usage struct {
	goroutines int
	// watches are those of the hub, connections the open watches of all clients of the API
	// server, with those of the test and of the API server itself.
	watches, connections int
	heap                 uint64
}

func (c usage) String() string {
	return fmt.Sprintf("%d goroutines, %d watches, %d connections that watch, %.1f MiB of heap",
		c.goroutines, c.watches, c.connections, float64(c.heap)/(1<<20))
}

// counter measures the usage.
type counter struct {
	controllers *controllers
	api         rest.Interface
}

func newCounter(t *testing.T, config *rest.Config, c *controllers) *counter {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &counter{c, client.RESTClient()}
}

func (c *counter) count(t *testing.T) usage {
	t.Helper()
	runtime.GC()
	runtime.GC() // a pool keeps its objects during the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{
		goroutines: runtime.NumGoroutine(), watches: len(c.controllers.Hub.Stats()),
		connections: c.connections(t), heap: m.HeapAlloc,
	}
}

// connections counts the open watches of the API server.
func (c *counter) connections(t *testing.T) int {
	t.Helper()
	raw, err := c.api.Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for line := range strings.SplitSeq(string(raw), "\n") {
		if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `verb="WATCH"`) {
			var n float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n); err == nil {
				total += n
			}
		}
	}
	return int(total)
}

// openWatches lists the open watches of the API server, by kind.
func (c *counter) openWatches(t *testing.T) string {
	t.Helper()
	raw, err := c.api.Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.SplitSeq(string(raw), "\n") {
		if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `verb="WATCH"`) && !strings.HasSuffix(line, " 0") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// Goroutines and heap vary by themselves: idle connections have goroutines, and memory is
// freed in steps.
const (
	goroutineTolerance = 20
	heapTolerance      = 4 << 20
	// settleTimeout covers the time for which the hub keeps unused watches, and quietTime the
	// half minute in which the garbage collector notices created and deleted kinds.
	settleTimeout = 3 * time.Minute
	quietTime     = 35 * time.Second
)

// baseline waits until the API server's own watches are those of the current kinds, and returns the
// usage to compare others with.
func (c *counter) baseline(t *testing.T) usage {
	t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, since := c.connections(t), time.Now()
	for time.Since(since) < quietTime {
		<-tick.C
		if now := c.connections(t); now != last {
			last, since = now, time.Now()
		}
	}
	return c.count(t)
}

func (c usage) within(base usage) error {
	switch {
	case c.watches > base.watches:
		return fmt.Errorf("%d watches, not %d as before", c.watches, base.watches)
	case c.connections > base.connections:
		return fmt.Errorf("%d connections, not %d as before", c.connections, base.connections)
	case c.goroutines > base.goroutines+goroutineTolerance:
		return fmt.Errorf("%d goroutines, and %d before", c.goroutines, base.goroutines)
	case c.heap > base.heap+base.heap/4+heapTolerance:
		return fmt.Errorf("%d bytes of heap, and %d before", c.heap, base.heap)
	}
	return nil
}

// awaitBaseline waits until the usage is that of the baseline again, and returns the last one.
func (c *counter) awaitBaseline(t *testing.T, base usage) usage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settleTimeout)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		now := c.count(t)
		err := now.within(base)
		if err == nil {
			return now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Log(c.openWatches(t))
			for _, s := range c.controllers.Hub.Stats() {
				t.Logf("watch of %s %s, %s %s, %d subscribers, %d objects", s.Kind, s.Selection, s.State.Phase, s.State.Reason, s.Subscribers, s.Objects)
			}
			if now.goroutines > base.goroutines+goroutineTolerance {
				stacks := make([]byte, 1<<20)
				t.Logf("%s", stacks[:runtime.Stack(stacks, true)])
			}
			t.Fatalf("after %s: %v; the usage is %s", settleTimeout, err, now)
		}
	}
}
