package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-dev/espalier/internal/watch"
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
				q := newQueue(1)
				l := q.open(nil)
				began := time.Now()
				for i, d := range tc.delays {
					l.addAfter(key("a"), d, watch.Priority(i))
				}
				next, _ := q.get()
				if took := time.Since(began); took != tc.want {
					t.Errorf("want it after %s, got it after %s", tc.want, took)
				}
				if next.ask.priority != watch.Normal {
					t.Errorf("the most urgent counts, not %d", next.ask.priority)
				}
				next.done()
				<-time.After(time.Hour)
				if n := waiting(q); n != 0 {
					t.Errorf("%d more came of it", n)
				}
			})
		})
	}
}

func TestFailedWorkComesBackEverLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		l := q.open(nil)
		l.add(key("a"), watch.Normal)
		next, _ := q.get()
		again := func() time.Duration {
			began := time.Now()
			next.failed(0)
			next.done()
			next, _ = q.get()
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
		next.succeeded(0)
		if took := again(); took > firstDelay {
			t.Errorf("what has succeeded starts anew, not after %s", took)
		}
		next.succeeded(0)
		next.done()
		if len(l.items) > 0 || l.failing != 0 {
			t.Errorf("%d keys are remembered, %d as failing", len(l.items), l.failing)
		}
	})
}

// TestFailedWorkComesBackNotBeforeItMay: whoever it was asked of has said when.
func TestFailedWorkComesBackNotBeforeItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		l := q.open(nil)
		l.add(key("a"), watch.Normal)
		next, _ := q.get()
		for failures := range 30 {
			began := time.Now()
			next.succeeded(time.Second) // a look that is due before
			for range failures {
				next.failed(0)
			}
			next.failed(time.Minute)
			next.done()
			next, _ = q.get()
			if took := time.Since(began); took < time.Minute || took > longestDelay {
				t.Errorf("after %d failures it came back after %s", failures+1, took)
			}
		}
		next.succeeded(0)
		next.done()
	})
}

// TestARepeatIsAsUrgent: a pass over a person's change fails, with a conflict
// say, while ten thousand objects are looked at again.
func TestARepeatIsAsUrgentAsTheAskThatFailed(t *testing.T) {
	cases := map[string]struct {
		reason string
		play   func(person turn)
		want   watch.Priority
	}{
		"A person's change that failed": {
			reason: "it has not been handled yet",
			play:   func(person turn) { person.failed(0) },
			want:   watch.Urgent,
		},
		"It fails once more, when looked at for another reason": {
			reason: "the change has not been handled for that",
			play: func(person turn) {
				person.failed(0)
				person.ask.priority = watch.Background
				person.failed(0)
			},
			want: watch.Urgent,
		},
		"It succeeds when looked at for another reason": {
			reason: "what comes then is but one look too many",
			play: func(person turn) {
				person.failed(0)
				person.succeeded(0)
			},
			want: watch.Background,
		},
		"A wait": {
			reason: "nobody changed anything",
			play:   func(person turn) { person.succeeded(time.Second) },
			want:   watch.Background,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(1)
				l := q.open(nil)
				l.add(key("person"), watch.Urgent)
				person, _ := q.get()
				for i := range 10_000 {
					l.add(key(fmt.Sprint(i)), watch.Background)
				}
				tc.play(person)
				person.done()
				<-time.After(time.Second)
				before := 0
				next, _ := q.get()
				for ; next.key() != key("person"); next, _ = q.get() {
					before++
					next.done()
				}
				if next.ask.priority != tc.want || (before < 10_000) != (tc.want == watch.Urgent) {
					t.Errorf("%s; it comes back as %d, after %d others", tc.reason, next.ask.priority, before)
				}
			})
		})
	}
}
