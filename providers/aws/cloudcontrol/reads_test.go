package cloudcontrol

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// service has resources, which a read returns with the time of the read.
type service struct {
	calls, resources atomic.Int64
}

func (s *service) read(_ context.Context, identifiers []string) (map[string]map[string]any, error) {
	s.calls.Add(1)
	s.resources.Add(int64(len(identifiers)))
	pass(100 * time.Millisecond)
	out := map[string]map[string]any{}
	for _, id := range identifiers {
		out[id] = map[string]any{"At": time.Now().UnixMilli()}
	}
	return out, nil
}

// TestReadsOfAThousandResourcesAtRest observes 1,000 VPCs and subnets once a minute, with the eight workers
// of a small installation. AWS is read at most once for 50 of them in each minute.
func TestReadsOfAThousandResourcesAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects, workers, minutes = 1000, 8, 10
		r, s := NewReads(time.Now), &service{}
		queue := make(chan int)
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for n := range queue {
					typeName := []string{"AWS::EC2::VPC", "AWS::EC2::Subnet"}[n%2]
					began := time.Now()
					properties, _, found, err := r.Get(t.Context(), typeName, fmt.Sprintf("id-%d", n), maxAge, s.read)
					if err != nil || !found {
						t.Errorf("%d: %t, %v", n, found, err)
					}
					if age := began.Sub(time.UnixMilli(properties["At"].(int64))); age > maxAge {
						t.Errorf("the result is %s old", age)
					}
				}
			})
		}
		var before int64
		for minute := range minutes {
			before = s.calls.Load()
			for n := range objects { // polls are spread over the minute
				pass(time.Minute / objects)
				queue <- n
			}
			_ = minute
		}
		close(queue)
		all.Wait()
		last := s.calls.Load() - before
		t.Logf("in the last minute, %d calls of AWS for %d observations; in all, %d calls for %d", last, objects, s.calls.Load(), objects*minutes)
		if last > objects/50 {
			t.Errorf("there are %d calls", last)
		}
	})
}

func TestAnObservationAfterAnOperationSeesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := NewReads(time.Now), &service{}
		get := func(id string) int64 {
			properties, _, found, err := r.Get(t.Context(), "T", id, maxAge, s.read)
			if err != nil || !found {
				t.Error(found, err)
				return 0
			}
			return properties["At"].(int64)
		}
		get("a")
		get("b")
		pass(time.Minute)
		get("a") // reads b as well
		calls := s.calls.Load()
		r.Forget("T", "b") // an operation begins
		now := time.Now().UnixMilli()
		if at := get("b"); at <= now || s.calls.Load() == calls {
			t.Errorf("the observation is of %d, before the operation at %d", at, now)
		}
		pass(time.Minute)
		go get("a")
		pass(50 * time.Millisecond) // the batch reads both
		r.Forget("T", "b")
		now = time.Now().UnixMilli()
		pass(time.Second)
		if at := get("b"); at <= now {
			t.Errorf("the observation is of %d, from a batch that began before the operation at %d", at, now)
		}
	})
}

func TestAResultIsUsedOnceAndNotForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := NewReads(time.Now), &service{}
		get := func(id string) {
			if _, _, _, err := r.Get(t.Context(), "T", id, maxAge, s.read); err != nil {
				t.Fatal(err)
			}
		}
		get("a")
		get("b")
		pass(time.Minute)
		get("a")
		calls := s.calls.Load()
		if get("b"); s.calls.Load() != calls {
			t.Error("what was read together is read again")
		}
		if get("b"); s.calls.Load() == calls {
			t.Error("the result is used twice")
		}
		pass(time.Minute)
		get("a")
		pass(maxAge + time.Second)
		calls = s.calls.Load()
		if get("b"); s.calls.Load() == calls {
			t.Error("an old result is used")
		}
	})
}

// pass lets time pass in a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }
