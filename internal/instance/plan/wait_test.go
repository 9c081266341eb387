package plan_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func TestBackoffOfWaits(t *testing.T) {
	cases := map[string]struct {
		after    time.Duration
		attempts int
		next     time.Duration
	}{
		"The first attempt is at the beginning":        {0, 1, time.Second},
		"The second is after a second":                 {time.Second, 2, 2 * time.Second},
		"Before that, it is the first":                 {time.Second - 1, 1, 1},
		"Delays double":                                {3 * time.Second, 3, 4 * time.Second},
		"In between, the rest of the delay is left":    {5 * time.Second, 3, 2 * time.Second},
		"The last doubling":                            {2047 * time.Second, 12, 2048 * time.Second},
		"The maximum delay is an hour":                 {4095 * time.Second, 13, time.Hour},
		"Hours later the delay is still an hour":       {4095*time.Second + 3*time.Hour, 16, time.Hour},
		"A clock that went back is no earlier attempt": {-5 * time.Second, 1, 6 * time.Second},
		"Times don't overflow":                         {1<<63 - 1, 2562059, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := plan.Wait{Since: now}
			at := now.Add(tc.after)
			next := w.Next(at)
			if got := w.Attempts(at); got != tc.attempts {
				t.Errorf("attempts: want %d, got %d", tc.attempts, got)
			}
			if next <= 0 || next > time.Hour || tc.next != 0 && next != tc.next {
				t.Errorf("next: want %s, got %s", tc.next, next)
			}
		})
	}
}

func TestEachRetryIsOneMoreAttempt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := plan.Wait{Since: now}
		at := now.Add(time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "elapsed")))
		next := w.Next(at)
		if next <= 0 {
			t.Fatalf("next in %s", next)
		}
		if before, after := w.Attempts(at), w.Attempts(at.Add(next)); after != before+1 {
			t.Fatalf("attempt %d is followed by %d", before, after)
		}
		if just := w.Attempts(at.Add(next - 1)); just != w.Attempts(at) {
			t.Fatalf("an attempt before its time")
		}
	})
}

func TestLimitsOfWaits(t *testing.T) {
	cases := map[string]struct {
		wait     plan.Wait
		after    time.Duration
		timedOut bool
		next     time.Duration
	}{
		"No limit": {plan.Wait{}, 10000 * time.Hour, false, 0},
		"A timeout has not passed before its time":      {plan.Wait{Timeout: 10 * time.Second}, 10*time.Second - 1, false, 1},
		"A timeout has passed at its time":              {plan.Wait{Timeout: 10 * time.Second}, 10 * time.Second, true, 5 * time.Second},
		"The next attempt is no later than the timeout": {plan.Wait{Timeout: 10 * time.Second}, 8 * time.Second, false, 2 * time.Second},
		"After the timeout attempts continue":           {plan.Wait{Timeout: 10 * time.Second}, time.Hour, true, 0},
		"Retries have passed with the next attempt":     {plan.Wait{Retries: 2}, 3 * time.Second, true, 4 * time.Second},
		"The last of the retries is still allowed":      {plan.Wait{Retries: 2}, 3*time.Second - 1, false, 1},
		"The first limit counts":                        {plan.Wait{Retries: 1, Timeout: time.Hour}, time.Second, true, 2 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.wait.Since = now
			at := now.Add(tc.after)
			if got := tc.wait.TimedOut(at); got != tc.timedOut {
				t.Errorf("timed out: want %t, got %t", tc.timedOut, got)
			}
			if got := tc.wait.Next(at); tc.next != 0 && got != tc.next {
				t.Errorf("next: want %s, got %s", tc.next, got)
			}
		})
	}
}

func TestWaitString(t *testing.T) {
	w := plan.Wait{Node: "cluster", On: "vpc.status.id", Since: now}
	for want, got := range map[string]string{
		"cluster waits for vpc.status.id":                                         w.String(),
		"cluster waits for vpc.status.id, since 2026-08-01T12:00:00Z, 1 attempt":  w.Describe(now),
		"cluster waits for vpc.status.id, since 2026-08-01T12:00:00Z, 3 attempts": w.Describe(now.Add(3 * time.Second)),
		"cluster waits for vpc.status.id (too short)":                             plan.Wait{Node: "cluster", On: "vpc.status.id", Detail: "too short"}.String(),
	} {
		if want != got {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}
