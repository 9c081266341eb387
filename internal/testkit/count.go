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

// Counter counts the requests that go through it: reads as well as writes. Watches
// don't count, since they are what makes polling unnecessary, and neither do
// events, which tell people of what has happened.
type Counter struct {
	// Counts says which of them count; optional.
	Counts func(*http.Request) bool

	mu    sync.Mutex
	total int
	by    map[string]int
}

// Wrap returns a copy of the configuration whose requests are counted.
func (c *Counter) Wrap(config *rest.Config) *rest.Config {
	wrapped := rest.CopyConfig(config)
	wrapped.Wrap(c.Count)
	return wrapped
}

// Count is a transport that counts the requests of another.
func (c *Counter) Count(next http.RoundTripper) http.RoundTripper { return counting{c, next} }

// Counted is how many requests there were.
type Counted struct {
	Total int
	by    map[string]int
}

// Now is how many requests there have been so far.
func (c *Counter) Now() Counted {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Counted{c.total, maps.Clone(c.by)}
}

// Since is how many requests there have been since then.
func (c *Counter) Since(then Counted) Counted {
	out := c.Now()
	out.Total -= then.Total
	for what, n := range then.by {
		if out.by[what] -= n; out.by[what] == 0 {
			delete(out.by, what)
		}
	}
	return out
}

// String lists the requests by verb and resource.
func (c Counted) String() string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(c.by)) {
		parts = append(parts, fmt.Sprintf("%d %s", c.by[what], what))
	}
	return strings.Join(parts, ", ")
}

type counting struct {
	*Counter
	next http.RoundTripper
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	resource := resourceOf(r.URL.Path)
	if resource != "events" && r.URL.Query().Get("watch") == "" && (c.Counts == nil || c.Counts(r)) {
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

// resourceOf is the resource, with its subresource, that a path is about; of what
// is about none it is the path.
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
