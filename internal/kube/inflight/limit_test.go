package inflight

import (
	"testing"
	"time"
)

func TestTheLimitFollowsFromAWindow(t *testing.T) {
	const baseline = 10 * time.Millisecond
	for name, c := range map[string]struct {
		value float64
		// inFlight requests were in flight on average, and each took that long.
		inFlight    int
		took        time.Duration
		isSaturated bool
		want        float64
	}{
		"few wait, and more would be sent":         {16, 16, baseline, true, 17},
		"few wait, and no more would be sent":      {16, 16, baseline, false, 16},
		"as many wait as should":                   {16, 3, 20 * time.Millisecond, true, 16},
		"exactly the fewest wait":                  {16, 2, 20 * time.Millisecond, true, 16},
		"exactly the most wait":                    {16, 4, 20 * time.Millisecond, true, 16},
		"one too many waits":                       {16, 6, 20 * time.Millisecond, true, 5},
		"many wait":                                {40, 40, 20 * time.Millisecond, true, 31},
		"many wait of fewer than the limit":        {40, 20, 20 * time.Millisecond, true, 16},
		"more were in flight than the limit":       {10, 20, 20 * time.Millisecond, true, 6},
		"it is faster than the baseline":           {16, 16, 5 * time.Millisecond, true, 17},
		"it does not fall below the minimum":       {minLimit, 100, 100 * time.Millisecond, true, minLimit},
		"it does not fall below the minimum, idle": {minLimit, 6, 20 * time.Millisecond, false, minLimit},
		"it does not grow above the maximum":       {maxLimit, 256, baseline, true, maxLimit},
	} {
		var w window
		for range windowRequests {
			w.add(c.took, baseline, c.inFlight)
		}
		w.isSaturated = c.isSaturated
		if got := w.next(c.value); got != c.want {
			t.Errorf("%s: the limit is %g after %g, want %g", name, got, c.value, c.want)
		}
	}
}

// answers makes a limit take in n answers of a class.
func answers(l *limit, now time.Time, c class, took time.Duration, inFlight, n int) {
	for range n {
		l.answered(now, c, took, inFlight, false)
	}
}

var (
	get = class{verb: "GET", resource: "configmaps"}
	put = class{verb: "PUT", resource: "configmaps"}
)

func TestTheLimitIsDecidedByWholeWindowsOfKnownClasses(t *testing.T) {
	now, l := time.Unix(1_000_000, 0), newLimit()
	answers(l, now, get, 10*time.Millisecond, 1, 1)
	answers(l, now, put, time.Second, 8, windowRequests-1)
	if l.window.requests != 1 || l.value != initialLimit || l.probes != 0 {
		t.Fatalf("requests without a baseline count: %+v", l)
	}
	l.waited(initialLimit)
	answers(l, now, get, 10*time.Millisecond, 8, windowRequests-2)
	if l.value != initialLimit {
		t.Errorf("the limit is %g before the window is complete", l.value)
	}
	answers(l, now, get, 10*time.Millisecond, 8, 1)
	if l.value != initialLimit+1 || l.window != (window{}) {
		t.Errorf("after a window, the limit is %g, and the next one is %+v", l.value, l.window)
	}
}

func TestOnlyARequestAtTheLimitSaysThatItIsTooLow(t *testing.T) {
	l := newLimit()
	if l.waited(initialLimit - 1); l.window.isSaturated {
		t.Error("a request that yields to others counts as one that waits for the limit")
	}
	if l.waited(initialLimit); !l.window.isSaturated {
		t.Error("a request that waits for the limit does not count")
	}
}

func TestTheBaselineIsMeasuredAgainFromTimeToTime(t *testing.T) {
	now, l := time.Unix(1_000_000, 0), newLimit()
	answers(l, now, get, 10*time.Millisecond, fewInFlight, 1)
	if l.baseline[get] != 10*time.Millisecond {
		t.Fatalf("the baseline is %s", l.baseline[get])
	}
	answers(l, now.Add(probeInterval-1), get, 20*time.Millisecond, fewInFlight+1, 1)
	if l.probes != 0 || l.baseline[get] != 10*time.Millisecond {
		t.Fatalf("it is measured too soon, or by a request that waited: %d probes, baseline %s", l.probes, l.baseline[get])
	}
	answers(l, now.Add(probeInterval), get, 20*time.Millisecond, fewInFlight+1, 1)
	if l.probes != probeRequests || l.capacity() != (capacity{fewInFlight, 0, 1}) {
		t.Fatalf("%d requests are to measure it, with a capacity of %+v", l.probes, l.capacity())
	}
	answers(l, now.Add(probeInterval), get, 20*time.Millisecond, fewInFlight+1, 1)
	if l.probes != probeRequests || l.window != (window{}) {
		t.Errorf("a request from before counts: %d probes, %+v", l.probes, l.window)
	}
	answers(l, now.Add(probeInterval), get, 18*time.Millisecond, fewInFlight, 1)
	if l.probes != probeRequests-1 || l.baseline[get] != 11*time.Millisecond {
		t.Errorf("%d probes, baseline %s; want the average with the measurement to count an eighth", l.probes, l.baseline[get])
	}
	answers(l, now.Add(probeInterval), get, time.Hour, fewInFlight, 1)
	if most := 24 * time.Millisecond; l.baseline[get] > most {
		t.Errorf("one request that hung makes the baseline %s", l.baseline[get])
	}
	answers(l, now.Add(probeInterval), get, 10*time.Millisecond, fewInFlight, probeRequests-2)
	if l.probes != 0 || l.capacity() != (capacity{initialLimit, spareSeats, l.bulk.value}) {
		t.Errorf("after the probe, %d probes, capacity %+v", l.probes, l.capacity())
	}
}

func TestRequestsOfUnknownClassesMakeItMeasure(t *testing.T) {
	now, l := time.Unix(1_000_000, 0), newLimit()
	answers(l, now, get, 10*time.Millisecond, 1, 1)
	answers(l, now, put, 10*time.Millisecond, fewInFlight+1, windowRequests-1)
	if l.probes != 0 {
		t.Fatal("it measures already")
	}
	answers(l, now, put, 10*time.Millisecond, fewInFlight+1, 1)
	if l.probes != probeRequests || l.unknown != 0 {
		t.Errorf("%d probes after %d requests without a baseline", l.probes, windowRequests)
	}
}

func TestBaselinesAreBounded(t *testing.T) {
	now, l := time.Unix(1_000_000, 0), newLimit()
	for i := range maxClasses {
		answers(l, now, class{resource: string(rune(i + 1))}, 0, 1, 1)
	}
	if len(l.baseline) != maxClasses {
		t.Fatalf("%d baselines", len(l.baseline))
	}
	for c, took := range l.baseline {
		if took <= 0 {
			t.Fatalf("the baseline of %v is %s: it would never count as known", c, took)
		}
	}
	answers(l, now, get, time.Second, 1, 1)
	if len(l.baseline) != 1 || l.baseline[get] != time.Second {
		t.Errorf("%d baselines after one more", len(l.baseline))
	}
}
