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
		"A later one is ignored":     {[]time.Duration{time.Second, time.Minute}, time.Second},
		"An earlier one replaces it": {[]time.Duration{time.Minute, time.Second}, time.Second},
		"An equal one is ignored":    {[]time.Duration{time.Second, time.Second}, time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newKindQueue(nil, 1)
				await := l.awaiting()
				began := time.Now()
				for i, d := range tc.delays {
					l.AddAfter(key("a"), d, watch.Priority(i), nil)
				}
				next := await()
				if took := time.Since(began); took != tc.want {
					t.Errorf("want the key after %s, got it after %s", tc.want, took)
				}
				if next.request.priority != watch.Normal {
					t.Errorf("the priority is %d, not the highest", next.request.priority)
				}
				next.Done()
				<-time.After(time.Hour)
				if n := l.running.total; n != 0 {
					t.Errorf("the key is reconciled %d more times", n)
				}
			})
		})
	}
}

func TestFailedItemsAreRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newKindQueue(nil, 1)
		await := l.awaiting()
		l.Add(key("a"), watch.Normal)
		next := await()
		again := func() time.Duration {
			began := time.Now()
			next.AddRateLimited(0)
			next.Done()
			next = await()
			return time.Since(began)
		}
		last := time.Duration(0)
		for range 100 {
			took := again()
			if took < firstDelay/2 || took > longestDelay || took < last && last < longestDelay/2 {
				t.Errorf("after a delay of %s the next is %s", last, took)
			}
			last = took
		}
		if last < longestDelay/2 {
			t.Errorf("after a hundred failures the delay is %s", last)
		}
		next.Forget()
		if took := again(); took > firstDelay {
			t.Errorf("after a success the first delay is %s", took)
		}
		next.Forget()
		next.Done()
		if len(l.items) > 0 || l.failing != 0 {
			t.Errorf("%d keys have items, %d of them failing", len(l.items), l.failing)
		}
	})
}

// TestRetryAfterIsRespected: the reconcile returned the delay.
func TestRetryAfterIsRespected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newKindQueue(nil, 1)
		await := l.awaiting()
		l.Add(key("a"), watch.Normal)
		next := await()
		for failures := range 30 {
			began := time.Now()
			next.queue.AddAfter(next.key(), time.Second, watch.Background, nil) // due earlier
			for range failures {
				next.AddRateLimited(0)
			}
			next.AddRateLimited(time.Minute)
			next.Done()
			next = await()
			if took := time.Since(began); took < time.Minute || took > longestDelay {
				t.Errorf("after %d failures the delay is %s", failures+1, took)
			}
		}
		next.Forget()
		next.Done()
	})
}

// TestARetryKeepsThePriority: the reconcile of a user's change fails, such as with a conflict, while
// ten thousand objects are resynced.
func TestARetryKeepsThePriority(t *testing.T) {
	cases := map[string]struct {
		reason string
		play   func(edit work)
		want   watch.Priority
	}{
		"The reconcile fails": {
			reason: "it has not been handled yet",
			play:   func(edit work) { edit.AddRateLimited(0) },
			want:   watch.Urgent,
		},
		"It fails again in a lower priority": {
			reason: "the change has still not been handled",
			play: func(edit work) {
				edit.AddRateLimited(0)
				edit.request.priority = watch.Background
				edit.AddRateLimited(0)
			},
			want: watch.Urgent,
		},
		"It succeeds in a lower priority": {
			reason: "the retry is not needed any more",
			play: func(edit work) {
				edit.AddRateLimited(0)
				edit.Forget()
			},
			want: watch.Background,
		},
		"It waits": {
			reason: "nothing changed",
			play: func(edit work) {
				edit.Forget()
				edit.queue.AddAfter(edit.key(), time.Second, watch.Background, nil)
			},
			want: watch.Background,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newKindQueue(nil, 1)
				await := l.awaiting()
				l.Add(key("edit"), watch.Urgent)
				edit := await()
				for i := range 10_000 {
					l.Add(key(fmt.Sprint(i)), watch.Background)
				}
				tc.play(edit)
				edit.Done()
				<-time.After(time.Second)
				before := 0
				next := await()
				for ; next.key() != key("edit"); next = await() {
					before++
					next.Done()
				}
				if next.request.priority != tc.want || (before < 10_000) != (tc.want == watch.Urgent) {
					t.Errorf("%s: it is retried in priority %d, after %d others", tc.reason, next.request.priority, before)
				}
			})
		})
	}
}
