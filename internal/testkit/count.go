package testkit

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// Counter counts the requests that go through it, reads and writes. It leaves out watches,
// which replace polling, and writes of events. It is safe for concurrent use.
type Counter struct {
	// Filter reports whether a request counts; nil counts all. It is set before the first
	// request.
	Filter func(*http.Request) bool

	mu    sync.Mutex
	total int
	by    map[string]int
}

// Wrap returns a copy of the configuration whose requests are counted.
func (c *Counter) Wrap(config *rest.Config) *rest.Config {
	wrapped := rest.CopyConfig(config)
	wrapped.Wrap(c.WrapTransport)
	return wrapped
}

// WrapTransport returns a transport that counts the requests of next.
func (c *Counter) WrapTransport(next http.RoundTripper) http.RoundTripper { return counting{c, next} }

// RequestCounts is a number of requests, in total and by verb and resource.
type RequestCounts struct {
	Total int
	by    map[string]int
}

// Snapshot returns the requests so far.
func (c *Counter) Snapshot() RequestCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return RequestCounts{c.total, maps.Clone(c.by)}
}

// Since returns the requests since an earlier Snapshot.
func (c *Counter) Since(before RequestCounts) RequestCounts {
	out := c.Snapshot()
	out.Total -= before.Total
	for key, n := range before.by {
		if out.by[key] -= n; out.by[key] == 0 {
			delete(out.by, key)
		}
	}
	return out
}

// String lists the requests by verb and resource.
func (c RequestCounts) String() string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(c.by)) {
		parts = append(parts, fmt.Sprintf("%d %s", c.by[key], key))
	}
	return strings.Join(parts, ", ")
}

type counting struct {
	*Counter
	next http.RoundTripper
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	resource := resourceOf(r.URL.Path)
	if resource != "events" && r.URL.Query().Get("watch") == "" && (c.Filter == nil || c.Filter(r)) {
		c.mu.Lock()
		if c.by == nil {
			c.by = map[string]int{}
		}
		c.total++
		c.by[r.Method+" "+resource]++
		c.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

// resourceOf returns the resource, with its subresource, of a request's path, or the path
// itself where it has none.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return path
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}
