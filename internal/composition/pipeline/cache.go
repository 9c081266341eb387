package pipeline

import (
	"container/list"
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Cache remembers what functions answered, for as long as they say, so that an equal
// request to the same revision of a function costs no call; and it makes equal calls
// that come at the same time once. Equal are requests of one tag, as the protocol has
// it; one without a tag passes through. Failures are never remembered.
type Cache struct {
	next     Runner
	revision func(name string) string
	now      func() time.Time
	limit    int

	mu      sync.Mutex
	answers map[cacheKey]*list.Element
	order   *list.List // of *remembered; the front was used last
	bytes   int
	flights map[cacheKey]*flight
	stats   CacheStats
}

// CacheStats are what a cache has done and what it holds.
type CacheStats struct {
	// Hits were answered from memory, Joined by a call that was under way, and Misses
	// by a call of their own.
	Hits, Joined, Misses uint64
	// Entries and Bytes are what is remembered now.
	Entries, Bytes int
}

type cacheKey struct{ function, revision, tag string }

type remembered struct {
	key      cacheKey
	response *fnv1.RunFunctionResponse
	until    time.Time
	bytes    int
}

// NewCache makes a cache in front of a runner that holds at most so many bytes.
// revision says which revision of a function would be called; a new one's answers are
// not its predecessor's.
func NewCache(next Runner, revision func(name string) string, bytes int, now func() time.Time) *Cache {
	return &Cache{
		next: next, revision: revision, now: now, limit: bytes,
		answers: map[cacheKey]*list.Element{}, order: list.New(), flights: map[cacheKey]*flight{},
	}
}

// Run answers from memory if it can. The time to live of such an answer is what is left
// of it.
func (c *Cache) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	key := cacheKey{function: name, revision: c.revision(name), tag: request.GetMeta().GetTag()}
	if key.tag == "" {
		return c.next.Run(ctx, name, request)
	}
	response, f := c.lookup(ctx, key, request)
	if response != nil {
		return response, nil
	}
	defer c.leave(key, f)
	select {
	case <-f.done:
		return f.response, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Stats returns the counters.
func (c *Cache) Stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	stats := c.stats
	stats.Entries, stats.Bytes = c.order.Len(), c.bytes
	return stats
}

// lookup returns what is remembered, or else the call to wait for.
func (c *Cache) lookup(ctx context.Context, key cacheKey, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.answers[key]; found != nil {
		known := found.Value.(*remembered)
		if left := known.until.Sub(c.now()); left > 0 {
			c.order.MoveToFront(found)
			c.stats.Hits++
			return withTTL(known.response, left), nil
		}
		c.forget(found)
	}
	if f := c.flights[key]; f != nil {
		f.waiting++
		c.stats.Joined++
		return nil, f
	}
	c.stats.Misses++
	// The call serves all who wait for it: it ends when it is done, or when nobody waits.
	apart, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{done: make(chan struct{}), cancel: cancel, waiting: 1}
	c.flights[key] = f
	go c.call(apart, key, request, f)
	return nil, f
}

// flight is a call that is under way.
type flight struct {
	done    chan struct{} // closed when the answer is there
	cancel  context.CancelFunc
	waiting int

	response *fnv1.RunFunctionResponse
	err      error
}

func (c *Cache) call(ctx context.Context, key cacheKey, request *fnv1.RunFunctionRequest, f *flight) {
	func() {
		defer recovered(&f.err)
		f.response, f.err = c.next.Run(ctx, key.function, request)
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.err == nil {
		c.remember(key, f.response)
	}
	if c.flights[key] == f {
		delete(c.flights, key)
	}
	close(f.done)
}

// leave ends a call that nobody waits for any more; the next one is made anew.
func (c *Cache) leave(key cacheKey, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiting--; f.waiting > 0 {
		return
	}
	f.cancel()
	if c.flights[key] == f {
		delete(c.flights, key)
	}
}

func (c *Cache) remember(key cacheKey, response *fnv1.RunFunctionResponse) {
	ttl := response.GetMeta().GetTtl()
	if !ttl.IsValid() || ttl.AsDuration() <= 0 || fatal(response) != nil {
		return
	}
	size := proto.Size(response) + len(key.function) + len(key.revision) + len(key.tag)
	if size > c.limit {
		return
	}
	if old := c.answers[key]; old != nil {
		c.forget(old)
	}
	c.answers[key] = c.order.PushFront(&remembered{key: key, response: response, until: c.now().Add(ttl.AsDuration()), bytes: size})
	for c.bytes += size; c.bytes > c.limit; {
		c.forget(c.order.Back())
	}
}

func (c *Cache) forget(e *list.Element) {
	gone := c.order.Remove(e).(*remembered)
	delete(c.answers, gone.key)
	c.bytes -= gone.bytes
}

// withTTL is the response with another time to live. It shares everything else.
func withTTL(r *fnv1.RunFunctionResponse, ttl time.Duration) *fnv1.RunFunctionResponse {
	return &fnv1.RunFunctionResponse{
		Meta:         &fnv1.ResponseMeta{Tag: r.GetMeta().GetTag(), Ttl: durationpb.New(ttl)},
		Desired:      r.GetDesired(),
		Results:      r.GetResults(),
		Context:      r.GetContext(),
		Requirements: r.GetRequirements(),
		Conditions:   r.GetConditions(),
		Output:       r.GetOutput(),
	}
}
