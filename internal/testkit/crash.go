package testkit

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// ErrCrashed is what every request gets after the crash.
var ErrCrashed = errors.New("testkit: crashed")

// Crash makes a process die after a given number of its writes, as seen from the
// API server: that write takes effect, its answer is lost, and no request comes
// after it.
type Crash struct {
	after   int64
	before  func(n int) bool
	writes  atomic.Int64
	crashed chan struct{}
	once    atomic.Bool
	// Log is told of each write; optional.
	Log func(string)
}

// NewCrash crashes after the n-th write; with 0 never, which counts them.
func NewCrash(n int) *Crash { return &Crash{after: int64(n), crashed: make(chan struct{})} }

// NewCrashBefore crashes before the first write, as counted from 1, of which before
// says so: that one never arrives. What the process has done elsewhere since the
// write before is done, and nobody has noted it.
func NewCrashBefore(before func(n int) bool) *Crash {
	return &Crash{before: before, crashed: make(chan struct{})}
}

// Wrap returns a copy of the configuration whose requests go through the crash.
func (c *Crash) Wrap(config *rest.Config) *rest.Config {
	wrapped := rest.CopyConfig(config)
	wrapped.Wrap(func(next http.RoundTripper) http.RoundTripper { return crashing{c, next} })
	return wrapped
}

// Crashed is closed when it has happened.
func (c *Crash) Crashed() <-chan struct{} { return c.crashed }

// Writes counts the writes so far.
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
	if c.before != nil && c.before(int(n)) {
		c.crash()
	}
	if c.once.Load() || c.after > 0 && n > c.after {
		return nil, ErrCrashed // side by side with the one that crashes
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

// IsWrite tells requests that change something of the world under test; events
// and leases are about it, and questions about rights are only asked by writing them.
func IsWrite(r *http.Request) bool {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return !strings.Contains(r.URL.Path, "/events") && !strings.Contains(r.URL.Path, "/leases") && !strings.Contains(r.URL.Path, "/selfsubject")
	}
	return false
}

// Revive runs something whose requests go through the crash, and once that has happened
// runs it again without. It returns how to stop the one that runs.
func (c *Crash) Revive(config *rest.Config, run func(*rest.Config) (stop func())) (stop func()) {
	first := run(c.Wrap(config))
	over, last := make(chan struct{}), make(chan func(), 1)
	go func() {
		select {
		case <-c.Crashed():
			first()
			last <- run(config)
		case <-over: // there were fewer writes this time
			last <- first
		}
	}()
	return sync.OnceFunc(func() {
		close(over)
		(<-last)()
	})
}
