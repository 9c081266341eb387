package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// clock is the controllers' clock: the wall clock with an offset.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// connection is how one process of the controllers reaches the API server, until it is cut.
type connection struct {
	writes atomic.Int64
	// losing says that the next write is the last one, and that its answer is lost.
	losing atomic.Bool
	cut    atomic.Bool
	lost   chan struct{}
}

func (c *connection) send(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if c.cut.Load() {
		return nil, testkit.ErrCrashed
	}
	if !testkit.IsWrite(r) {
		return next.RoundTrip(r)
	}
	c.writes.Add(1)
	if c.losing.CompareAndSwap(true, false) {
		c.cut.Store(true)
		answer, err := next.RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close() // nobody reads it
		}
		close(c.lost)
		return nil, testkit.ErrCrashed
	}
	return next.RoundTrip(r)
}

// controllers are one process of the controllers, which runs within this one.
type controllers struct {
	*server.Controllers
	*connection
	cancel context.CancelFunc
	ended  chan error
}

// startControllers starts controllers and waits until they run. Like a program in a pod, they are started again if they end
// while the connection is disturbed.
func (s *soak) startControllers(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, s.patience)
	defer stop()
	for {
		err := s.tryStartControllers(ctx)
		if err == nil || s.proxy == nil || ctx.Err() != nil {
			return err
		}
		s.log.step("start the controllers again: %v", err)
		if !pauseFor(ctx, time.Second) {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

func (s *soak) tryStartControllers(ctx context.Context) error {
	c := &controllers{connection: &connection{lost: make(chan struct{})}, ended: make(chan error, 1)}
	config := rest.CopyConfig(s.plane.Config())
	if s.proxy != nil {
		config = rest.CopyConfig(s.proxy.config)
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return through{c.connection, next}
	})
	var err error
	if c.Controllers, err = server.NewControllers(server.Options{
		Config: config, Settings: server.Settings{Workers: 8, AllowCRDDeletion: true, AdmissionPolicies: true}, Version: "soak",
		Log: s.log.controllers(), Events: suite.DiscardEvents{}, Now: s.clock.now,
	}); err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	starting, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() {
		err := c.Run(running)
		c.ended <- err
		fail(err)
	}()
	if err := c.WaitStarted(starting); err != nil {
		cancel()
		return fmt.Errorf("the controllers do not start: %w", errors.Join(err, c.awaitEnd(s.patience)))
	}
	s.controllers = c
	return nil
}

// through is a transport of a connection: a client may have several.
type through struct {
	*connection
	next http.RoundTripper
}

func (t through) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.send(t.next, r)
}

// stopControllers stops the controllers and waits until they have ended.
func (s *soak) stopControllers() error {
	c := s.controllers
	if c == nil {
		return nil
	}
	s.controllers = nil
	c.cancel()
	return c.awaitEnd(s.patience)
}

// killControllers cuts the controllers off from the API server, before or in the middle of their next
// write, and does not wait for them.
func (s *soak) killControllers(ctx context.Context, atWrite bool) string {
	c := s.controllers
	s.controllers = nil
	outcome := "at once"
	if atWrite {
		outcome = "at a write"
		c.losing.Store(true)
		timer := time.NewTimer(s.pause)
		defer timer.Stop()
		select {
		case <-c.lost:
		case <-timer.C:
			outcome = "at rest"
		case <-ctx.Done():
		}
	}
	c.cut.Store(true)
	c.cancel()
	s.killed = append(s.killed, c)
	return outcome
}

// awaitKilled waits until killed controllers have ended.
func (s *soak) awaitKilled() error {
	killed := s.killed
	s.killed = nil
	for _, c := range killed {
		if err := c.awaitEnd(s.patience); err != nil && !errors.Is(err, testkit.ErrCrashed) {
			return err
		}
	}
	return nil
}

func (c *controllers) awaitEnd(patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-c.ended:
		return err
	case <-timer.C:
		return errors.New("the controllers do not stop")
	}
}
