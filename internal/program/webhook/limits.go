package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Limits of requests. The limits of a body are what the API server may send: an admission review has up to two
// objects, of maxObject bytes each.
const (
	maxObject             = 3 << 20                   // bytes of an object in a request of the API server
	maxEnvelope           = 1 << 20                   // bytes of an admission review beyond its objects
	maxRequest            = 2*maxObject + maxEnvelope // bytes of an admission review
	maxConversionRequest  = 16 << 20                  // bytes of a conversion review
	maxConversionObjects  = 20_000                    // objects of a conversion review
	maxDecoding           = maxObject + maxEnvelope   // bytes of the objects that are converted at the same time, and so of one: decoded, they take many times as much
	admissionLimit        = 5 * time.Second           // for an admission review
	conversionLimit       = 8 * time.Second           // for a conversion review
	maxConcurrentBytes    = 64 << 20                  // of the bodies of concurrent requests of one webhook
	maxConcurrentRequests = 64                        // of one webhook
	maxWaitingRequests    = 256                       // that wait for a slot, of one webhook
	maxConnections        = 512
)

// minRequestWeight is what a request without a body counts: maxConcurrentRequests of them are as
// many bytes as maxConcurrentBytes.
const minRequestWeight = maxConcurrentBytes / maxConcurrentRequests

// limiter bounds the requests of one webhook: how many are served and how many wait, the bytes
// of their bodies, and their time.
type limiter struct {
	next    http.Handler
	name    string
	maxBody int64
	maxTime time.Duration
	metrics *telemetry.Webhooks

	serving *semaphore.Weighted
	waiting atomic.Int64
}

func newLimiter(name string, maxBody int64, maxTime time.Duration, metrics *telemetry.Webhooks, next http.Handler) *limiter {
	return &limiter{
		next: next, name: name, maxBody: maxBody, maxTime: maxTime, metrics: metrics,
		serving: semaphore.NewWeighted(maxConcurrentBytes),
	}
}

// ServeHTTP serves a request within the limits. The context of the request ends at its deadline.
func (l *limiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
	defer func() { l.metrics.Observe(l.name, recorder.status) }()
	w = recorder
	within, err := requestTimeout(r, l.maxTime)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.ContentLength > l.maxBody {
		tooLarge(w, l.maxBody)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	weight := requestWeight(r.ContentLength, l.maxBody)
	if status, err := l.acquire(ctx, weight); err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), status)
		return
	}
	defer l.serving.Release(weight)
	// A body that arrives slowly takes the place of other requests no longer than that.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // a writer without deadlines has none
	l.next.ServeHTTP(w, r.WithContext(ctx))
}

func (l *limiter) acquire(ctx context.Context, weight int64) (status int, err error) {
	if l.serving.TryAcquire(weight) {
		return 0, nil
	}
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > maxWaitingRequests {
		return http.StatusTooManyRequests, fmt.Errorf("%s webhook: too many requests: at most %s run concurrently, and %d more wait",
			l.name, concurrency(), maxWaitingRequests)
	}
	if err := l.serving.Acquire(ctx, weight); err != nil {
		return http.StatusServiceUnavailable, fmt.Errorf("%s webhook: timed out waiting for a slot; at most %s run concurrently",
			l.name, concurrency())
	}
	return 0, nil
}

func concurrency() string {
	return fmt.Sprintf("%d requests with %d MiB", maxConcurrentRequests, maxConcurrentBytes>>20)
}

// requestWeight is the part of maxConcurrentBytes that a request takes. A body of unknown length
// (-1) counts as the longest.
func requestWeight(length, maxBody int64) int64 {
	if length < 0 {
		return maxBody
	}
	return max(length, minRequestWeight)
}

// requestTimeout is the time for a request: what the API server allows in the query parameter timeout, without a
// tenth for the way back, and limit at most.
func requestTimeout(r *http.Request, limit time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get("timeout")
	if text == "" {
		return limit, nil
	}
	allowed, err := time.ParseDuration(text)
	if err != nil || allowed <= 0 {
		return 0, errors.New("the parameter timeout is not a positive duration, such as 5s")
	}
	return min(allowed-allowed/10, limit), nil
}

func tooLarge(w http.ResponseWriter, limit int64) {
	http.Error(w, fmt.Sprintf("the request is larger than %d MiB", limit>>20), http.StatusRequestEntityTooLarge)
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController the connection's writer.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }
