package inflight

import "time"

// limit is how many requests may be in flight. It follows their latency as TCP Vegas follows that of packets (Brakmo and
// Peterson, 1995): requests in flight that make the others slower without being answered sooner wait in the server,
// and a few of those keep it busy. It grows while fewer wait, on a server of any size, and shrinks while more do.
// Now and then it lets few requests through for a moment, as BBR does (Cardwell and others, 2016), to measure how long they
// take without the others. What other clients make slower is part of that, so that the controllers keep their share
// beside them. It is not safe for concurrent use.
type limit struct {
	value float64
	// alone is how long a request of a class takes with few in flight, on average.
	alone  map[class]time.Duration
	window window
	// measured is when a request with few in flight was answered last, and unknown how many of unknown classes were
	// answered since.
	measured time.Time
	unknown  int
	// probes is how many more requests are sent with few in flight.
	probes int
	// beside is how many of those in flight may be of floods while there is short work.
	beside beside
}

// class are requests that take equally long: of one verb and resource.
type class struct{ verb, group, resource, subresource string }

// window are the requests since the limit was decided last.
type window struct {
	requests int
	// took is the sum of their latencies, and alone that of what they take with few in flight.
	took, alone time.Duration
	// inFlight is the sum of the requests in flight, as each of them was sent.
	inFlight int
	// isReached says that a request waited.
	isReached bool
}

const (
	initialLimit = 16
	// minLimit of requests in flight are allowed however slow the server is.
	minLimit = 4
	// maxLimit bounds the growth while nothing gets slower.
	maxLimit = 256

	// sparePlaces let the short work of a tenant, one request after the other, pass a flood at each of them. They are
	// few, since they make all other requests slower.
	sparePlaces = 2

	// fewWaiting is how many requests the server should have waiting at least, so that it always has something to do, and
	// manyWaiting how many at most.
	fewWaiting, manyWaiting = 1, 2
	// windowRequests is how many requests decide the limit, so that chance does not.
	windowRequests = 32

	// few requests in flight hardly delay each other.
	few = 2
	// probeRequests are sent with few in flight, if there were none by themselves for probeInterval.
	probeRequests = 16
	probeInterval = 10 * time.Second
	// averaged is how many measurements count in an average, more or less.
	averaged = 8
	// slowest is the latency that counts at most, as a multiple of that alone: a single request that hung says nothing
	// about the others.
	slowest = 10
	// maxClasses bounds the memory. Beyond, all are measured again.
	maxClasses = 4096
)

func newLimit() *limit {
	return &limit{value: initialLimit, alone: map[class]time.Duration{}, beside: newBeside()}
}

// capacity is how many requests may be in flight. None is spare while few should be.
func (l *limit) capacity() capacity {
	if l.probes > 0 {
		return capacity{few, 0, 1}
	}
	return capacity{int(l.value), sparePlaces, l.beside.value}
}

// waited notes that a request has to wait, while as many are in flight. If the limit is not reached, it is a flood's, which
// waits for short work.
func (l *limit) waited(inFlight int) {
	if inFlight >= l.capacity().shared {
		l.window.isReached = true
	}
}

// answered notes how long a request took from when it was sent, with how many in flight, itself among them, and whether it is
// of short work beside a flood.
func (l *limit) answered(now time.Time, c class, took time.Duration, inFlight int, isShort bool) {
	if inFlight <= few {
		l.measure(now, c, took)
	}
	if alone := l.alone[c]; alone > 0 {
		took = min(took, slowest*alone)
		l.window.add(took, alone, inFlight)
		if isShort {
			l.beside.answered(now, took, alone, int(l.value))
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

// measure notes how long a request takes with few in flight.
func (l *limit) measure(now time.Time, c class, took time.Duration) {
	l.measured, l.unknown, l.probes = now, 0, max(l.probes-1, 0)
	before, known := l.alone[c]
	switch {
	case known:
		l.alone[c] = max(before+(min(took, slowest*before)-before)/averaged, 1)
		return
	case len(l.alone) == maxClasses:
		clear(l.alone)
	}
	l.alone[c] = max(took, 1)
}

func (w *window) add(took, alone time.Duration, inFlight int) {
	w.requests++
	w.took += took
	w.alone += alone
	w.inFlight += inFlight
}

// next is the limit after the window, of which value was the limit.
func (w window) next(value float64) float64 {
	inFlight := float64(w.inFlight) / float64(w.requests)
	waiting := 0.0
	if w.took > w.alone {
		waiting = inFlight * (1 - float64(w.alone)/float64(w.took))
	}
	switch {
	case waiting > manyWaiting:
		return max(minLimit, min(value, inFlight)-max(1, (waiting-manyWaiting)/2))
	case waiting < fewWaiting && w.isReached:
		return min(maxLimit, value+1)
	}
	return value
}
