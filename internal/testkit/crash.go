package testkit

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// ErrCrashed is the error of every request after the crash.
var ErrCrashed = errors.New("testkit: crashed")

// Crash simulates, as seen from the API server, a process that dies at one of its writes:
// the write takes effect, its answer is lost, and no request follows. It is safe for
// concurrent use.
type Crash struct {
	after   int64
	before  func(n int, r *http.Request) bool
	writes  atomic.Int64
	crashed chan struct{}
	once    atomic.Bool
	// Log gets each write as "METHOD path"; optional.
	Log func(string)
}

// NewCrash crashes after the n-th write. With 0 it never crashes and only counts writes.
func NewCrash(n int) *Crash { return &Crash{after: int64(n), crashed: make(chan struct{})} }

// NewCrashBefore crashes before the first write, counted from 1, for which before returns
// true: that write does not reach the server. External effects since the previous write
// remain, with no record of them in the cluster.
func NewCrashBefore(before func(n int, r *http.Request) bool) *Crash {
	return &Crash{before: before, crashed: make(chan struct{})}
}

// Wrap returns a copy of the configuration whose requests go through the crash.
func (c *Crash) Wrap(config *rest.Config) *rest.Config {
	wrapped := rest.CopyConfig(config)
	wrapped.Wrap(func(next http.RoundTripper) http.RoundTripper { return crashing{c, next} })
	return wrapped
}

// Crashed returns a channel that is closed at the crash.
func (c *Crash) Crashed() <-chan struct{} { return c.crashed }

// Writes returns the number of writes so far.
func (c *Crash) Writes() int { return int(c.writes.Load()) }

type crashing struct {
	*Crash
	next http.RoundTripper
}

func (c crashing) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.once.Load() {
		return nil, ErrCrashed
	}
	if !IsWrite(r) {
		return c.next.RoundTrip(r)
	}
	n := c.writes.Add(1)
	if c.Log != nil {
		c.Log(r.Method + " " + r.URL.Path)
	}
	if c.before != nil && c.before(int(n), r) {
		c.crash()
	}
	if c.once.Load() || c.after > 0 && n > c.after {
		return nil, ErrCrashed // concurrent with the write that crashes
	}
	answer, err := c.next.RoundTrip(r)
	if n == c.after {
		c.crash()
		if err == nil {
			_ = answer.Body.Close()
		}
		return nil, ErrCrashed
	}
	return answer, err
}

func (c *Crash) crash() {
	if c.once.CompareAndSwap(false, true) {
		close(c.crashed)
	}
}

// IsWrite reports whether a request changes an object under test. Events, leases and
// SelfSubject reviews do not count, and neither do dry runs.
func IsWrite(r *http.Request) bool {
	if r.URL.Query().Has("dryRun") {
		return false
	}
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return !strings.Contains(r.URL.Path, "/events") && !strings.Contains(r.URL.Path, "/leases") && !strings.Contains(r.URL.Path, "/selfsubject")
	}
	return false
}

// RunAndRestart runs a process whose requests go through the crash, and after the crash
// stops it and runs it again without. Stop stops the running one.
func (c *Crash) RunAndRestart(config *rest.Config, run func(*rest.Config) (stop func())) (stop func()) {
	first := run(c.Wrap(config))
	stopping, stopLast := make(chan struct{}), make(chan func(), 1)
	go func() {
		select {
		case <-c.Crashed():
			first()
			stopLast <- run(config)
		case <-stopping: // fewer writes this time
			stopLast <- first
		}
	}()
	return sync.OnceFunc(func() {
		close(stopping)
		(<-stopLast)()
	})
}
