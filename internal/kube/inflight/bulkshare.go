package inflight

import "time"

// bulkShare is how many requests of bulk flows may be in flight beside a sparse flow: as many as do not make the requests
// of that slower. On two cores this is one, and on a large server nearly all that may be in flight at all. It is not safe
// for concurrent use.
type bulkShare struct {
	value int
	// raised is when the value grew last, and interval how long it stays at least.
	raised   time.Time
	interval time.Duration
	// failed says that the requests became slower after it grew last.
	failed bool
	// requests counts those of sparse flows since the value was decided last. took and baseline are the sums of their
	// latencies and of their baseline latencies.
	requests       int
	took, baseline time.Duration
}

const (
	// shareRequests is how many requests decide the value.
	shareRequests = 16
	// minRaiseInterval is the time between two attempts with more requests. It doubles with each attempt that fails, up
	// to maxRaiseInterval, since the sparse flow pays for it.
	minRaiseInterval, maxRaiseInterval = time.Second, time.Minute
	// toleratedSlowdown is how much slower sparse flows may get, as a multiple of their baseline latency.
	toleratedSlowdown = 1.25
)

func newBulkShare() bulkShare { return bulkShare{value: 1, interval: minRaiseInterval} }

// answered records the latency of a request of a sparse flow beside bulk flows, with its baseline latency. The value stays
// below limit, so that some requests of sparse flows are always possible.
func (b *bulkShare) answered(now time.Time, took, baseline time.Duration, limit int) {
	b.requests++
	b.took += took
	b.baseline += baseline
	if b.requests < shareRequests {
		return
	}
	isSlow, since := float64(b.took) > toleratedSlowdown*float64(b.baseline), now.Sub(b.raised)
	b.requests, b.took, b.baseline = 0, 0, 0
	switch {
	case isSlow && b.value > 1:
		b.value, b.interval, b.failed = b.value/2, min(2*b.interval, maxRaiseInterval), true
	case isSlow:
	case since >= b.interval:
		b.value, b.raised, b.failed = max(1, min(2*b.value, limit-1)), now, false
	case since >= minRaiseInterval && !b.failed:
		b.interval = minRaiseInterval
	}
}
