package inflight

import "time"

// limit is how many requests may be in flight. It follows their latency as TCP Vegas follows that of packets (Brakmo and
// Peterson, 1995). Requests whose latency exceeds the baseline wait in the server for a part of that time. A few waiting
// requests keep the server busy; more of them make each other slower, and none is answered sooner. The limit grows while
// fewer wait, on a server of any size, and shrinks while more do.
//
// The baseline is the latency with few requests in flight. From time to time only few are sent for a moment, to measure it
// again, as BBR does (Cardwell and others, 2016). It includes the delay by requests of other clients, so that the
// controllers keep their share beside them. It is not safe for concurrent use.
type limit struct {
	value float64
	// baseline is the average latency of the requests of a class with few in flight.
	baseline map[class]time.Duration
	window   window
	// measured is when a request with few in flight was answered last, and unknown how many requests of classes without
	// a baseline were answered since.
	measured time.Time
	unknown  int
	// probes is how many more requests are sent with few in flight.
	probes int
	bulk   bulkShare
}

// class identifies requests that take equally long: those of one verb and resource.
type class struct{ verb, group, resource, subresource string }

// window has the requests since the limit was decided last.
type window struct {
	requests int
	// took and baseline are the sums of their latencies and of their baseline latencies.
	took, baseline time.Duration
	// inFlight is the sum of the requests in flight, as each of them was sent.
	inFlight int
	// isSaturated says that a request waited for the limit.
	isSaturated bool
}

const (
	initialLimit = 16
	// minLimit requests may be in flight however slow the server is.
	minLimit = 4
	// maxLimit bounds the growth while nothing gets slower.
	maxLimit = 256

	// spareSeats let a sparse flow, which sends one request after the other, pass bulk flows at each of them. They are
	// few, since they make all other requests slower.
	spareSeats = 2

	// fewWaiting is how many requests the server should have waiting at least, so that it always has something to do, and
	// manyWaiting how many at most.
	fewWaiting, manyWaiting = 1, 2
	// windowRequests is how many requests decide the limit, so that chance does not.
	windowRequests = 32

	// fewInFlight requests hardly delay each other.
	fewInFlight = 2
	// probeRequests are sent with few in flight, if probeInterval has passed without such requests.
	probeRequests = 16
	probeInterval = 10 * time.Second
	// averageOver is how many measurements a moving average is of, approximately.
	averageOver = 8
	// maxSlowdown is the latency that counts at most, as a multiple of the baseline: a single request that hung says
	// nothing about the others.
	maxSlowdown = 10
	// maxClasses bounds the memory. If there are more, all baselines are measured again.
	maxClasses = 4096
)

func newLimit() *limit {
	return &limit{value: initialLimit, baseline: map[class]time.Duration{}, bulk: newBulkShare()}
}

// capacity is how many requests may be in flight. There are no spare seats during a probe.
func (l *limit) capacity() capacity {
	if l.probes > 0 {
		return capacity{fewInFlight, 0, 1}
	}
	return capacity{int(l.value), spareSeats, l.bulk.value}
}

// waited records that a request has to wait while inFlight others are in flight. Below the limit, this is a request of a
// bulk flow that yields to a sparse one, and says nothing about the limit.
func (l *limit) waited(inFlight int) {
	if inFlight >= l.capacity().shared {
		l.window.isSaturated = true
	}
}

// answered records the latency of a request. inFlight is how many were in flight when it was sent, itself among them, and
// isSparse whether it is of a sparse flow beside bulk ones.
func (l *limit) answered(now time.Time, c class, took time.Duration, inFlight int, isSparse bool) {
	if inFlight <= fewInFlight {
		l.measure(now, c, took)
	}
	if baseline := l.baseline[c]; baseline > 0 {
		took = min(took, maxSlowdown*baseline)
		l.window.add(took, baseline, inFlight)
		if isSparse {
			l.bulk.answered(now, took, baseline, int(l.value))
		}
	} else {
		l.unknown++
	}
	switch {
	case l.probes > 0:
		l.window = window{}
	case l.window.requests == windowRequests:
		l.value, l.window = l.window.next(l.value), window{}
	}
	if l.probes == 0 && (now.Sub(l.measured) >= probeInterval || l.unknown >= windowRequests) {
		l.probes, l.unknown = probeRequests, 0
	}
}

// measure adds the latency of a request with few in flight to the baseline of its class.
func (l *limit) measure(now time.Time, c class, took time.Duration) {
	l.measured, l.unknown, l.probes = now, 0, max(l.probes-1, 0)
	before, known := l.baseline[c]
	switch {
	case known:
		l.baseline[c] = max(before+(min(took, maxSlowdown*before)-before)/averageOver, 1)
		return
	case len(l.baseline) == maxClasses:
		clear(l.baseline)
	}
	l.baseline[c] = max(took, 1)
}

func (w *window) add(took, baseline time.Duration, inFlight int) {
	w.requests++
	w.took += took
	w.baseline += baseline
	w.inFlight += inFlight
}

// next returns the limit that follows from the window, during which the limit was value.
func (w window) next(value float64) float64 {
	inFlight := float64(w.inFlight) / float64(w.requests)
	waiting := 0.0
	if w.took > w.baseline {
		waiting = inFlight * (1 - float64(w.baseline)/float64(w.took))
	}
	switch {
	case waiting > manyWaiting:
		return max(minLimit, min(value, inFlight)-max(1, (waiting-manyWaiting)/2))
	case waiting < fewWaiting && w.isSaturated:
		return min(maxLimit, value+1)
	}
	return value
}
