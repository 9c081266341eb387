package cloudcontrol

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// atRest are resources of one type that are observed by a poll with jitter, as the controllers do it: after an
// observation, the next one is due after the interval and up to a tenth of it. latency is that of a read.
type atRest struct {
	count             int
	interval, latency time.Duration
}

// workers is how many resources of a kind are observed at the same time.
const workers = 8

// callsPerPoll observes the resources for some polls, and returns how many reads a poll takes once their intervals are
// known. It checks that each result was read after the resource's previous request, so that it is used once.
func (a atRest) callsPerPoll(t *testing.T, random *rand.Rand) float64 {
	t.Helper()
	const warm, polls = 6, 8
	var calls float64
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		end := began.Add((warm + polls) * a.interval)
		isCounted := func() bool { return time.Since(began) > warm*a.interval }
		count := 0
		read := func(_ context.Context, identifiers []string) (map[string]map[string]any, error) {
			if isCounted() {
				count++
			}
			if len(identifiers) > maxBatch {
				t.Errorf("a batch has %d resources", len(identifiers))
			}
			at := time.Now()
			pass(a.latency)
			out := map[string]map[string]any{}
			for _, id := range identifiers {
				out[id] = map[string]any{"At": at}
			}
			return out, nil
		}
		r, worker := NewReads(time.Now), make(chan struct{}, workers)
		for i := range a.count {
			phase := time.Duration(random.Int64N(int64(a.interval)))
			jitter := rand.New(rand.NewPCG(random.Uint64(), 0))
			go func() {
				var previous time.Time
				for pass(phase); time.Now().Before(end); pass(a.interval + time.Duration(jitter.Int64N(int64(a.interval/10)))) {
					worker <- struct{}{}
					requested := time.Now()
					properties, _, found, err := r.Get(t.Context(), "T", fmt.Sprintf("id-%d", i), maxAge, read)
					if err != nil || !found {
						t.Errorf("%d: %t, %v", i, found, err)
						<-worker
						return
					}
					if at := properties["At"].(time.Time); at.Before(previous) || requested.Sub(at) > maxAge {
						t.Errorf("a result is %s old, and %s before the previous request", requested.Sub(at), previous.Sub(at))
					}
					previous = requested
					<-worker
				}
			}()
		}
		pass(time.Until(end) + 2*a.interval)
		calls = float64(count) / polls
	})
	return calls
}

// TestReadsAtRestByInterval has resources of one type with random counts, poll intervals and latencies. A poll takes at
// most one read for 50 of them, and two if they are few.
func TestReadsAtRestByInterval(t *testing.T) {
	for seed := range uint64(45) {
		random := rand.New(rand.NewPCG(seed, 1))
		a := atRest{
			count:    1 + random.IntN([]int{20, 120, 1000}[seed%3]),
			interval: 20*time.Second + time.Duration(random.Int64N(int64(580*time.Second))),
			latency:  time.Duration(20+random.IntN(1000)) * time.Millisecond,
		}
		if seed < 3 {
			a.interval = []time.Duration{20 * time.Second, time.Minute, 10 * time.Minute}[seed]
		}
		t.Run(fmt.Sprintf("%d resources each %s, with a latency of %s", a.count, a.interval, a.latency), func(t *testing.T) {
			calls, most := a.callsPerPoll(t, random), max(2, float64(a.count)/50)
			t.Logf("%.2f reads a poll", calls)
			if calls > most {
				t.Errorf("a poll takes %.2f reads, more than %.2f", calls, most)
			}
		})
	}
}
