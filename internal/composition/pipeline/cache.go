package pipeline

import (
	"container/list"
	"context"
	"math"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Cache caches the responses of functions for their TTL, by function, revision and request
// tag, and merges equal calls that are in flight at the same time. Requests without a tag
// bypass it. Errors and Fatal results are never cached. It is safe for concurrent use.
type Cache struct {
	next     Runner
	revision func(name string) string
	now      func() time.Time
	maxBytes int

	mu       sync.Mutex
	entries  map[cacheKey]*list.Element
	order    *list.List // of *cacheEntry, most recently used first
	bytes    int
	inflight map[cacheKey]*inflightCall
	stats    CacheStats
}

// CacheStats are the counters and the size of a cache.
type CacheStats struct {
	// Hits are calls with a cached response, Joined the calls that shared one in flight, and Misses the calls of the
	// function.
	Hits, Joined, Misses uint64
	// Entries and Bytes are the current size.
	Entries, Bytes int
}

type cacheKey struct{ function, revision, tag string }

type cacheEntry struct {
	key      cacheKey
	response *fnv1.RunFunctionResponse
	expires  time.Time
	bytes    int
}

// NewCache makes a cache of at most about that many bytes of memory in front of a runner. revision returns
// the current revision of a function: the responses of one revision are not used for
// another.
func NewCache(next Runner, revision func(name string) string, bytes int, now func() time.Time) *Cache {
	return &Cache{
		next: next, revision: revision, now: now, maxBytes: bytes,
		entries: map[cacheKey]*list.Element{}, order: list.New(), inflight: map[cacheKey]*inflightCall{},
	}
}

// Run returns a cached response, with its remaining TTL, or calls the function.
func (c *Cache) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	key := cacheKey{function: name, revision: c.revision(name), tag: request.GetMeta().GetTag()}
	if key.tag == "" {
		return c.next.Run(ctx, name, request)
	}
	response, f := c.lookup(ctx, key, request)
	if response != nil {
		return response, nil
	}
	defer c.release(key, f)
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

// lookup returns the cached response, or else the call in flight to wait for, which the
// caller must release.
func (c *Cache) lookup(ctx context.Context, key cacheKey, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, *inflightCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.entries[key]; found != nil {
		entry := found.Value.(*cacheEntry)
		if ttl := entry.expires.Sub(c.now()); ttl > 0 {
			c.order.MoveToFront(found)
			c.stats.Hits++
			return withTTL(entry.response, ttl), nil
		}
		c.evict(found)
	}
	if f := c.inflight[key]; f != nil {
		f.waiters++
		c.stats.Joined++
		return nil, f
	}
	c.stats.Misses++
	// The call serves all its waiters, so it doesn't end with the context of one of them. It
	// is canceled when the last waiter releases it.
	callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &inflightCall{done: make(chan struct{}), cancel: cancel, waiters: 1}
	c.inflight[key] = f
	go c.call(callCtx, key, request, f)
	return nil, f
}

type inflightCall struct {
	done    chan struct{} // closed once response and err are set
	cancel  context.CancelFunc
	waiters int

	response *fnv1.RunFunctionResponse
	err      error
}

func (c *Cache) call(ctx context.Context, key cacheKey, request *fnv1.RunFunctionRequest, f *inflightCall) {
	func() {
		defer recoverPanic(&f.err)
		f.response, f.err = c.next.Run(ctx, key.function, request)
	}()
	size := math.MaxInt // not stored
	if f.err == nil && isCacheable(f.response) {
		size = memoryOf(f.response)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if size <= c.maxBytes {
		c.store(key, f.response, size+len(key.function)+len(key.revision)+len(key.tag))
	}
	if c.inflight[key] == f {
		delete(c.inflight, key)
	}
	close(f.done)
}

// release removes a waiter of a call. The call is canceled with its last waiter, and is no
// longer shared.
func (c *Cache) release(key cacheKey, f *inflightCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiters--; f.waiters > 0 {
		return
	}
	f.cancel()
	if c.inflight[key] == f {
		delete(c.inflight, key)
	}
}

func isCacheable(response *fnv1.RunFunctionResponse) bool {
	ttl := response.GetMeta().GetTtl()
	return ttl.IsValid() && ttl.AsDuration() > 0 && fatal(response) == nil
}

func (c *Cache) store(key cacheKey, response *fnv1.RunFunctionResponse, size int) {
	if old := c.entries[key]; old != nil {
		c.evict(old)
	}
	c.entries[key] = c.order.PushFront(&cacheEntry{key: key, response: response, expires: c.now().Add(response.GetMeta().GetTtl().AsDuration()), bytes: size})
	for c.bytes += size; c.bytes > c.maxBytes; {
		c.evict(c.order.Back())
	}
}

func (c *Cache) evict(e *list.Element) {
	evicted := c.order.Remove(e).(*cacheEntry)
	delete(c.entries, evicted.key)
	c.bytes -= evicted.bytes
}

// withTTL returns a shallow copy.
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
