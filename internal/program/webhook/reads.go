package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"github.com/espalier-dev/espalier/internal/diag"
)

// Reads of the API server that requests cause. Requests that arrive together share one.
const (
	maxSharedReads     = 2  // a second, of each kind of read
	maxSharedReadBurst = 20 // beyond that, after a pause
	maxSingleReads     = 50 // a second, of single objects by one webhook
	maxSingleReadBurst = 500
	readLimit          = 8 * time.Second
)

// sharedRead makes a read for many requests: each gets the result of one that began after the request arrived, and so
// knows all that the API server knew then. One read runs at a time, and no more than maxSharedReads a second begin,
// whatever clients send.
type sharedRead[T any] struct {
	read func(context.Context) (T, error)

	mu      sync.Mutex
	next    *readAttempt[T] // has not begun; nil if no request waits for one
	running bool
	rate    flowcontrol.RateLimiter
}

type readAttempt[T any] struct {
	done  chan struct{} // closed once value and err are set
	value T
	err   error
}

func (s *sharedRead[T]) get(ctx context.Context) (T, error) {
	s.mu.Lock()
	if s.next == nil {
		s.next = &readAttempt[T]{done: make(chan struct{})}
	}
	attempt := s.next
	if !s.running {
		s.running = true
		if s.rate == nil {
			s.rate = flowcontrol.NewTokenBucketRateLimiter(maxSharedReads, maxSharedReadBurst)
		}
		go s.run()
	}
	s.mu.Unlock()
	select {
	case <-attempt.done:
		return attempt.value, attempt.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("the API server was not read in time; %d reads a second serve all requests: %w", maxSharedReads, context.Cause(ctx))
	}
}

func (s *sharedRead[T]) run() {
	for {
		s.rate.Accept()
		s.mu.Lock()
		attempt := s.next
		s.next = nil
		s.mu.Unlock()
		s.fill(attempt)
		s.mu.Lock()
		s.running = s.next != nil
		ended := !s.running
		s.mu.Unlock()
		if ended {
			return
		}
	}
}

func (s *sharedRead[T]) fill(attempt *readAttempt[T]) {
	defer close(attempt.done)
	defer func() {
		if p := recover(); p != nil {
			attempt.err = fmt.Errorf("%s while reading from the API server", diag.Panic(p))
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	attempt.value, attempt.err = s.read(ctx)
}
