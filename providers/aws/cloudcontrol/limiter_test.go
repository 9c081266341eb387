package cloudcontrol

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

var throttling = &types.ThrottlingException{Message: aws.String("Rate exceeded")}

func TestTheRateIsHalvedByThrottlingAndGrowsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter()
		l.Report(throttling)
		l.Report(throttling) // at the same time, so it is one event
		if got := l.State().Rate; got != initialRate/2 {
			t.Fatalf("the rate is %v", got)
		}
		began, calls := time.Now(), 0
		for time.Since(began) < time.Minute {
			if err := l.Wait(t.Context(), reads); err != nil {
				t.Fatal(err)
			}
			calls++
		}
		if rate := l.State().Rate; rate != maxRate || calls < 600 || calls > 25*60 {
			t.Errorf("after a minute, the rate is %v, and %d calls were made", rate, calls)
		}
	})
}

func TestOtherErrorsDoNotChangeTheRate(t *testing.T) {
	l := NewLimiter()
	l.Report(&types.InvalidRequestException{Message: aws.String("no")})
	l.Report(errors.New("no connection"))
	if got := l.State().Rate; got != initialRate {
		t.Errorf("the rate is %v", got)
	}
	l.Report(&types.GeneralServiceException{Message: aws.String("Rate exceeded (Service: Ec2)")})
	if got := l.State().Rate; got != initialRate/2 {
		t.Errorf("after throttling by another code, the rate is %v", got)
	}
}

func TestWritesGoFirstAndReadsDoNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter()
		l.tokens = 0
		var mu sync.Mutex
		var order []priority
		var all sync.WaitGroup
		for _, p := range []priority{reads, reads, writes, writes, writes, writes, writes} {
			all.Go(func() {
				if err := l.Wait(t.Context(), p); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, p)
			})
			synctest.Wait()
		}
		all.Wait()
		if want := []priority{writes, writes, writes, reads, writes, writes, reads}; !slices.Equal(order, want) {
			t.Errorf("the order is %v", order)
		}
	})
}

// TestALimitedCallKeepsNoWorker has AWS ask for a minute, and throttle without a delay.
func TestALimitedCallKeepsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter().ForNamespace()
		l.blocked = time.Now().Add(time.Minute)
		began := time.Now()
		var limited *external.OpError
		if err := l.Wait(t.Context(), reads); !errors.As(err, &limited) || limited.RetryAfter != time.Minute || time.Since(began) != 0 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if err := NewLimiter().Wait(t.Context(), reads); err != nil {
			t.Errorf("another limiter: %v", err)
		}
		l.blocked, l.tokens, l.rate = time.Time{}, -10, minRate
		if err := l.Wait(t.Context(), writes); !errors.As(err, &limited) || limited.Class != external.Rejected || time.Since(began) != maxNamespacedWait {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		pass(time.Minute) // the timer of the limiter ends
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter()
		l.tokens, l.rate = 0, minRate
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Wait(ctx, writes); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if err := l.Wait(t.Context(), writes); err != nil || l.State().Waiting != 0 {
			t.Errorf("the next call gets %v; %d wait", err, l.State().Waiting)
		}
		pass(time.Minute) // the timer of the limiter ends
	})
}
