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

// census counts the resources that controllers hold.
type census struct {
	goroutines int
	// watches are the hub's, connections those of all clients that the API
	// server has open: the test's own and the API server's own among them.
	watches, connections int
	heap                 uint64
}

func (c census) String() string {
	return fmt.Sprintf("%d goroutines, %d watches, %d connections that watch, %.1f MiB of heap",
		c.goroutines, c.watches, c.connections, float64(c.heap)/(1<<20))
}

// counter takes censuses.
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

func (c *counter) count(t *testing.T) census {
	t.Helper()
	runtime.GC()
	runtime.GC() // what pools kept through the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return census{
		goroutines: runtime.NumGoroutine(), watches: len(c.controllers.Hub.Stats()),
		connections: c.connections(t), heap: m.HeapAlloc,
	}
}

// connections counts the watches that the API server has open.
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

// open lists the watches that the API server has open, by kind.
func (c *counter) open(t *testing.T) string {
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

// The baseline is met again when nothing but what varies by itself is left:
// connections that are kept for the next request have goroutines, and memory
// that was in use comes back in pieces.
const (
	someGoroutines = 20
	someHeap       = 4 << 20
	// settling covers the hub's grace, and calm the half minute in which the
	// garbage collector of the API server takes note that kinds came or went.
	settling = 3 * time.Minute
	calm     = 35 * time.Second
)

// baseline waits until the API server's own watches have followed the kinds that
// there are, and takes the census that others are compared with.
func (c *counter) baseline(t *testing.T) census {
	t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, since := c.connections(t), time.Now()
	for time.Since(since) < calm {
		<-tick.C
		if now := c.connections(t); now != last {
			last, since = now, time.Now()
		}
	}
	return c.count(t)
}

func (c census) within(base census) error {
	switch {
	case c.watches > base.watches:
		return fmt.Errorf("%d watches are left, of %d", c.watches, base.watches)
	case c.connections > base.connections:
		return fmt.Errorf("%d connections are left, of %d", c.connections, base.connections)
	case c.goroutines > base.goroutines+someGoroutines:
		return fmt.Errorf("%d goroutines are left, of %d", c.goroutines, base.goroutines)
	case c.heap > base.heap+base.heap/4+someHeap:
		return fmt.Errorf("%d bytes of heap are left, of %d", c.heap, base.heap)
	}
	return nil
}

// awaitBaseline waits until the baseline is met again, and returns the last census.
func (c *counter) awaitBaseline(t *testing.T, base census) census {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settling)
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
			t.Log(c.open(t))
			for _, s := range c.controllers.Hub.Stats() {
				t.Logf("left: %s %s, %s %s, %d subscribers, %d objects", s.Kind, s.Selection, s.State.Phase, s.State.Reason, s.Subscribers, s.Objects)
			}
			if now.goroutines > base.goroutines+someGoroutines {
				stacks := make([]byte, 1<<20)
				t.Logf("%s", stacks[:runtime.Stack(stacks, true)])
			}
			t.Fatalf("after %s: %v; all in all %s", settling, err, now)
		}
	}
}
