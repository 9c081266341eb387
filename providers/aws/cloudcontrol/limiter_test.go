package cloudcontrol

import (
	"context"
	"errors"
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
		l := NewLimiter(nil)
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
	l := NewLimiter(nil)
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

// TestAnotherNamespaceWaitsForOneCall has a namespace with many calls, as one with ten thousand objects has them.
func TestAnotherNamespaceWaitsForOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := NewLimiter(nil)
		shared.tokens = 0
		slot := time.Duration(float64(time.Second) / initialRate)
		var all sync.WaitGroup
		many := shared.For("many", false)
		for range 200 {
			all.Go(func() {
				if err := many.Wait(t.Context(), writes); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		for _, namespace := range []string{"few", ""} {
			for range 3 {
				began := time.Now()
				if err := shared.For(namespace, false).Wait(t.Context(), reads); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(began); waited > 2*slot+time.Millisecond {
					t.Errorf("namespace %q: a call has waited %s; a slot takes %s", namespace, waited, slot)
				}
			}
		}
		if waiting := shared.State().Waiting; waiting < 150 {
			t.Errorf("only %d calls of the other namespace wait", waiting)
		}
		all.Wait()
	})
}

// TestACallThatWaitsNoLongerHasNoTurn ends waits of one namespace: another one's are not delayed by them.
func TestACallThatWaitsNoLongerHasNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := NewLimiter(nil)
		shared.tokens = 0
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := shared.For("gone", false).Wait(ctx, writes); !errors.Is(err, context.Canceled) {
					t.Errorf("a canceled wait returns %v", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		began := time.Now()
		if err := shared.Wait(t.Context(), reads); err != nil || time.Since(began) > 101*time.Millisecond || shared.State().Waiting != 0 {
			t.Errorf("after %s: %v; %d wait", time.Since(began), err, shared.State().Waiting)
		}
	})
}

// TestALimitedCallKeepsNoWorker has AWS ask for a minute, and throttle without a delay.
func TestALimitedCallKeepsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(nil).For("team", true)
		l.blocked = time.Now().Add(time.Minute)
		began := time.Now()
		var limited *external.OpError
		if err := l.Wait(t.Context(), reads); !errors.As(err, &limited) || limited.RetryAfter != time.Minute || time.Since(began) != 0 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if err := NewLimiter(nil).Wait(t.Context(), reads); err != nil {
			t.Errorf("another limiter: %v", err)
		}
		l.blocked, l.tokens, l.rate = time.Time{}, -10, minRate
		if err := l.Wait(t.Context(), writes); !errors.As(err, &limited) || limited.Class != external.Rejected || time.Since(began) != maxNamespacedWait {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if got := l.State().NotSent; got != 2 {
			t.Errorf("%d calls count as not sent", got)
		}
		pass(time.Minute) // the timer of the limiter ends
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(nil)
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
