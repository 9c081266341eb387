package inflight

import (
	"testing"
	"time"
)

// batch gives the share the latencies that decide its value: at that time, with a latency as a multiple of the baseline.
func (b *bulkShare) batch(at time.Duration, slowdown float64, limit int) int {
	for range shareRequests {
		b.answered(time.Unix(1_000_000, 0).Add(at), time.Duration(slowdown*float64(time.Millisecond)), time.Millisecond, limit)
	}
	return b.value
}

func TestBulkShare(t *testing.T) {
	const quick, slow = 1, 2
	type step struct {
		at       time.Duration
		slowdown float64
		want     int
	}
	cases := map[string]struct {
		limit int
		steps []step
	}{
		"it doubles every second, and stays below the limit": {20, []step{
			{0, quick, 2}, {999 * time.Millisecond, quick, 2}, {time.Second, quick, 4}, {2 * time.Second, quick, 8}, {3 * time.Second, quick, 16},
			{4 * time.Second, quick, 19}, {5 * time.Second, quick, 19},
		}},
		"there is always one": {1, []step{{0, quick, 1}, {time.Second, quick, 1}, {2 * time.Second, slow, 1}}},
		"what is tolerated": {20, []step{
			{0, toleratedSlowdown, 2}, {time.Second, toleratedSlowdown + 0.01, 1},
		}},
		"an attempt that fails is repeated after twice the time": {20, []step{
			{0, quick, 2}, {100 * time.Millisecond, slow, 1},
			{1999 * time.Millisecond, quick, 1}, {2 * time.Second, quick, 2}, {2100 * time.Millisecond, slow, 1},
			{5999 * time.Millisecond, quick, 1}, {6 * time.Second, quick, 2}, {6100 * time.Millisecond, slow, 1},
			{13999 * time.Millisecond, quick, 1}, {14 * time.Second, quick, 2},
		}},
		"also where more than one is tolerated": {20, []step{
			{0, quick, 2}, {time.Second, quick, 4}, {1100 * time.Millisecond, slow, 2},
			{2100 * time.Millisecond, quick, 2}, {2999 * time.Millisecond, quick, 2}, {3 * time.Second, quick, 4}, {3100 * time.Millisecond, slow, 2},
			{5 * time.Second, quick, 2}, {6999 * time.Millisecond, quick, 2}, {7 * time.Second, quick, 4},
		}},
		"an attempt that has lasted makes the next one soon": {20, []step{
			{0, quick, 2}, {100 * time.Millisecond, slow, 1}, {2 * time.Second, quick, 2}, {2999 * time.Millisecond, quick, 2},
			{3 * time.Second, quick, 2}, {3100 * time.Millisecond, quick, 4},
		}},
		"one at a time that is slow was no attempt": {20, []step{
			{0, slow, 1}, {time.Second, slow, 1}, {2 * time.Second, quick, 2}, {3 * time.Second, quick, 4},
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBulkShare()
			for i, s := range tc.steps {
				if got := b.batch(s.at, s.slowdown, tc.limit); got != s.want {
					t.Errorf("step %d, after %s: got %d, want %d", i+1, s.at, got, s.want)
				}
			}
		})
	}
}

func TestAttemptsOfABulkShareAreNotRarerThanOnceAMinute(t *testing.T) {
	b := newBulkShare()
	at := time.Duration(0)
	for range 20 {
		if b.batch(at, 1, 20) != 2 || b.batch(at, 2, 20) != 1 {
			t.Fatalf("after %s the value is %d", at, b.value)
		}
		at += maxRaiseInterval
	}
}

func TestABulkShareIsNotDecidedByFewRequests(t *testing.T) {
	b := newBulkShare()
	for range shareRequests - 1 {
		b.answered(time.Unix(1_000_000, 0), time.Millisecond, time.Millisecond, 20)
	}
	if b.value != 1 {
		t.Errorf("the value is %d after %d requests", b.value, b.requests)
	}
}
