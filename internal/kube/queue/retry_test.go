package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/watch"
)

func TestOfSeveralDelaysTheEarliestCounts(t *testing.T) {
	cases := map[string]struct {
		delays []time.Duration
		want   time.Duration
	}{
		"A later one changes nothing":  {[]time.Duration{time.Second, time.Minute}, time.Second},
		"An earlier one takes over":    {[]time.Duration{time.Minute, time.Second}, time.Second},
		"An equal one changes nothing": {[]time.Duration{time.Second, time.Second}, time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newWorkQueue(1)
				l := q.open(nil)
				began := time.Now()
				for i, d := range tc.delays {
					l.AddAfter(key("a"), d, watch.Priority(i))
				}
				next, _ := q.Get()
				if took := time.Since(began); took != tc.want {
					t.Errorf("want it after %s, got it after %s", tc.want, took)
				}
				if next.request.priority != watch.Normal {
					t.Errorf("the most urgent counts, not %d", next.request.priority)
				}
				next.Done()
				<-time.After(time.Hour)
				if n := waiting(q); n != 0 {
					t.Errorf("%d more came of it", n)
				}
			})
		})
	}
}

func TestFailedItemsAreRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newWorkQueue(1)
		l := q.open(nil)
		l.Add(key("a"), watch.Normal)
		next, _ := q.Get()
		again := func() time.Duration {
			began := time.Now()
			next.AddRateLimited(0)
			next.Done()
			next, _ = q.Get()
			return time.Since(began)
		}
		last := time.Duration(0)
		for range 100 {
			took := again()
			if took < firstDelay/2 || took > longestDelay || took < last && last < longestDelay/2 {
				t.Errorf("after %s it came back after %s", last, took)
			}
			last = took
		}
		if last < longestDelay/2 {
			t.Errorf("after a hundred failures it comes back after %s", last)
		}
		next.Forget()
		if took := again(); took > firstDelay {
			t.Errorf("what has succeeded starts anew, not after %s", took)
		}
		next.Forget()
		next.Done()
		if len(l.items) > 0 || l.failing != 0 {
			t.Errorf("%d keys are remembered, %d as failing", len(l.items), l.failing)
		}
	})
}

// TestRetryAfterIsRespected: the reconcile returned the delay.
func TestRetryAfterIsRespected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newWorkQueue(1)
		l := q.open(nil)
		l.Add(key("a"), watch.Normal)
		next, _ := q.Get()
		for failures := range 30 {
			began := time.Now()
			next.kind.AddAfter(next.key(), time.Second, watch.Background) // due before
			for range failures {
				next.AddRateLimited(0)
			}
			next.AddRateLimited(time.Minute)
			next.Done()
			next, _ = q.Get()
			if took := time.Since(began); took < time.Minute || took > longestDelay {
				t.Errorf("after %d failures it came back after %s", failures+1, took)
			}
		}
		next.Forget()
		next.Done()
	})
}

// TestARepeatIsAsUrgent: a pass over a person's change fails, with a conflict
// say, while ten thousand objects are looked at again.
func TestARetryKeepsThePriority(t *testing.T) {
	cases := map[string]struct {
		reason string
		play   func(person work)
		want   watch.Priority
	}{
		"A person's change that failed": {
			reason: "it has not been handled yet",
			play:   func(person work) { person.AddRateLimited(0) },
			want:   watch.Urgent,
		},
		"It fails once more, when looked at for another reason": {
			reason: "the change has not been handled for that",
			play: func(person work) {
				person.AddRateLimited(0)
				person.request.priority = watch.Background
				person.AddRateLimited(0)
			},
			want: watch.Urgent,
		},
		"It succeeds when looked at for another reason": {
			reason: "what comes then is but one look too many",
			play: func(person work) {
				person.AddRateLimited(0)
				person.Forget()
			},
			want: watch.Background,
		},
		"A wait": {
			reason: "nothing changed",
			play: func(person work) {
				person.Forget()
				person.kind.AddAfter(person.key(), time.Second, watch.Background)
			},
			want: watch.Background,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newWorkQueue(1)
				l := q.open(nil)
				l.Add(key("person"), watch.Urgent)
				person, _ := q.Get()
				for i := range 10_000 {
					l.Add(key(fmt.Sprint(i)), watch.Background)
				}
				tc.play(person)
				person.Done()
				<-time.After(time.Second)
				before := 0
				next, _ := q.Get()
				for ; next.key() != key("person"); next, _ = q.Get() {
					before++
					next.Done()
				}
				if next.request.priority != tc.want || (before < 10_000) != (tc.want == watch.Urgent) {
					t.Errorf("%s; it comes back as %d, after %d others", tc.reason, next.request.priority, before)
				}
			})
		})
	}
}
