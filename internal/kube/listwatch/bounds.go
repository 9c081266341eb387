// Package listwatch bounds the requests of a reflector. A reflector waits for each of them as long as it takes, and
// repeats a watch-list that ends before its end at once and for ever. So an API server, or a proxy before it, that does
// not complete a request would keep a kind from being read, without an error.
// See docs/design/0005-one-hub-of-watches.md.
package listwatch

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

const (
	// listTimeout bounds a list, or a page of it. The API server itself takes no more than a minute for a request, unless
	// it is told to.
	listTimeout = 2 * time.Minute
	// watchListTimeout bounds the beginning of a watch, and the list of a watch-list. A list in pages follows if that takes longer.
	watchListTimeout = time.Minute
	// endDelay is how much longer than its own time a watch may take to end.
	endDelay = 30 * time.Second
)

var (
	errIncomplete = errors.New("the former watch-list ended before all objects had arrived; the objects are listed instead")
	errTimeout    = errors.New("the API server has not answered within " + listTimeout.String() + "; the request is repeated")
)

// Bounds belong to one reflector. The zero value is ready for use, also concurrently.
type Bounds struct {
	// Initial bounds the beginning of a watch, and the list of a watch-list; a minute if it is 0.
	Initial time.Duration

	mu sync.Mutex
	// initial ends a watch-list that takes too long; nil unless one has begun and is not complete.
	initial *time.Timer
}

// List makes a list, or reads a page of it.
func List[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, listTimeout, errTimeout)
	defer cancel()
	list, err := do(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = context.Cause(bounded)
	}
	return list, err
}

// Watch opens a watch. It ends one that the server does not end in time. A watch-list after one that did not complete is
// refused: the reflector then lists instead.
func (b *Bounds) Watch(ctx context.Context, options metav1.ListOptions, open func(context.Context) (apiwatch.Interface, error)) (apiwatch.Interface, error) {
	ctx, cancel := untilEnd(ctx, options.TimeoutSeconds)
	isWatchList := options.SendInitialEvents != nil && *options.SendInitialEvents
	if isWatchList && !b.begin(cancel) {
		cancel()
		return nil, errIncomplete
	}
	opening := time.AfterFunc(b.initialTimeout(), cancel)
	w, err := open(ctx)
	opening.Stop()
	if err != nil {
		cancel()
		if isWatchList {
			b.Complete() // it has not begun
		}
		return nil, err
	}
	return bounded{w, cancel}, nil
}

// The server is to end the watch after these seconds, if they are given.
func untilEnd(ctx context.Context, seconds *int64) (context.Context, context.CancelFunc) {
	if seconds == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(*seconds)*time.Second+endDelay)
}

// It returns false if the former one did not complete.
func (b *Bounds) begin(cancel func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.initial != nil {
		b.complete() // the next one is accepted
		return false
	}
	b.initial = time.AfterFunc(b.initialTimeout(), cancel)
	return true
}

func (b *Bounds) initialTimeout() time.Duration { return cmp.Or(b.Initial, watchListTimeout) }

// Complete records that a watch-list is complete, or that the reflector begins anew.
func (b *Bounds) Complete() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complete()
}

func (b *Bounds) complete() {
	if b.initial != nil {
		b.initial.Stop()
		b.initial = nil
	}
}

type bounded struct {
	apiwatch.Interface
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (b bounded) Stop() {
	b.cancel()
	b.Interface.Stop()
}
