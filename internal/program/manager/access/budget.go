package access

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/util/flowcontrol"
)

// Limits of the reviews of tokens that are not known.
const (
	maxReviews     = 5   // a second for an address, of tokens that were not allowed before
	maxReviewBurst = 20  // beyond that, after a pause
	maxAllReviews  = 50  // a second for all addresses, of tokens that were not allowed before
	maxAddresses   = 256 // with reviews that count
)

// Budget limits how many tokens of strangers are sent to the API server: a few a second for each IP address, and more for all. It is
// safe for concurrent use.
type Budget struct {
	total flowcontrol.RateLimiter

	mu        sync.Mutex
	addresses *cache.LRUExpireCache // a flowcontrol.RateLimiter by address
}

// NewBudget returns a budget that nobody has used.
func NewBudget(now func() time.Time) *Budget {
	return &Budget{
		total:     flowcontrol.NewTokenBucketRateLimiter(maxAllReviews, 2*maxAllReviews),
		addresses: cache.NewLRUExpireCacheWithClock(maxAddresses, clock(now)),
	}
}

// Allow counts a review for an address, if the limits allow one more.
func (b *Budget) Allow(address string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	limiter, ok := b.addresses.Get(address)
	if !ok {
		limiter = flowcontrol.NewTokenBucketRateLimiter(maxReviews, maxReviewBurst)
		b.addresses.Add(address, limiter, rememberedTTL)
	}
	return limiter.(flowcontrol.RateLimiter).TryAccept() && b.total.TryAccept()
}

type clock func() time.Time

func (c clock) Now() time.Time { return c() }
