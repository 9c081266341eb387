package profile_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/telemetry/profile"
)

func durations(all ...time.Duration) (h profile.Histogram) {
	for _, d := range all {
		h.Observe(d)
	}
	return h
}

func TestQuantilesAreNearTheExactOnes(t *testing.T) {
	var h profile.Histogram
	for i := range 1000 {
		h.Observe(time.Duration(i+1) * time.Millisecond)
	}
	for share, want := range map[float64]time.Duration{0.5: 500 * time.Millisecond, 0.9: 900 * time.Millisecond, 0.99: 990 * time.Millisecond} {
		if got := h.Quantile(share); math.Abs(float64(got-want)) > float64(want)/4 {
			t.Errorf("the quantile %v is %s, not about %s", share, got, want)
		}
	}
	if h.Count() != 1000 || h.Sum != 500500*time.Millisecond {
		t.Errorf("%d durations of %s", h.Count(), h.Sum)
	}
}

func TestQuantilesOfFewDurations(t *testing.T) {
	cases := map[string]struct {
		h        profile.Histogram
		from, to time.Duration
	}{
		"None":                       {profile.Histogram{}, 0, 0},
		"A short one":                {durations(time.Microsecond), 1, 5 * time.Microsecond},
		"A negative one":             {durations(-time.Second), 1, 5 * time.Microsecond},
		"One in the middle":          {durations(150 * time.Microsecond), 120 * time.Microsecond, 190 * time.Microsecond},
		"One above the last bound":   {durations(24 * time.Hour), time.Minute, 24 * time.Hour},
		"A long one after many":      {durations(1, 1, 1, 1, 1, time.Second), 1, 5 * time.Microsecond},
		"A reconcile that timed out": {durations(time.Minute), 50 * time.Second, 75 * time.Second},
	}
	for name, tc := range cases {
		if got := tc.h.Quantile(0.5); got < tc.from || got > tc.to {
			t.Errorf("%s: got %s, not %s to %s", name, got, tc.from, tc.to)
		}
	}
}

var began, later = time.Unix(1000, 0).UTC(), time.Unix(1060, 0).UTC()

func TestTheDifferenceOfReadings(t *testing.T) {
	web := func(k profile.Kind) profile.Kind { k.Group, k.Kind = "kro.run", "Web"; return k }
	cases := map[string]struct {
		before, now, want profile.Kind
	}{
		"Counters are subtracted, states are not": {
			before: web(profile.Kind{Instances: 3, Ready: 1, Waiting: 4, Retries: 1, OldestSeconds: 9, Reconciles: durations(time.Second), Failed: 1, Requests: 10}),
			now:    web(profile.Kind{Instances: 2, Ready: 2, Waiting: 1, Active: 1, OldestSeconds: 2, Reconciles: durations(time.Second, time.Minute), Failed: 1, Requests: 15}),
			want:   web(profile.Kind{Instances: 2, Ready: 2, Waiting: 1, Active: 1, OldestSeconds: 2, Reconciles: durations(time.Minute), Requests: 5}),
		},
		"A kind that is new": {
			before: profile.Kind{Kind: "Other", Requests: 3},
			now:    web(profile.Kind{Requests: 4, Reconciles: durations(1)}),
			want:   web(profile.Kind{Requests: 4, Reconciles: durations(1)}),
		},
		"A kind that was forgotten in between": {
			before: web(profile.Kind{Requests: 100, Reconciles: durations(1, 1, 1)}),
			now:    web(profile.Kind{Requests: 400, Reconciles: durations(1)}),
			want:   web(profile.Kind{Requests: 400, Reconciles: durations(1)}),
		},
		"Functions": {
			before: web(profile.Kind{
				Functions: []profile.Function{{Name: "f", Calls: durations(1), Failed: 1}},
			}),
			now: web(profile.Kind{
				Functions: []profile.Function{{Name: "f", Calls: durations(1, time.Second), Failed: 1}, {Name: "g", Calls: durations(1)}},
			}),
			want: web(profile.Kind{
				Functions: []profile.Function{{Name: "f", Calls: durations(time.Second)}, {Name: "g", Calls: durations(1)}},
			}),
		},
	}
	// A histogram of a difference has empty buckets, which say nothing.
	same := cmp.Comparer(func(a, b profile.Histogram) bool {
		for _, share := range []float64{0.01, 0.5, 1} {
			if a.Quantile(share) != b.Quantile(share) {
				return false
			}
		}
		return a.Count() == b.Count() && a.Sum == b.Sum
	})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := profile.Reading{Began: began, At: began.Add(time.Second), Kinds: []profile.Kind{tc.before}}
			now := profile.Reading{Began: began, At: later, Kinds: []profile.Kind{tc.now}}
			untouched := asJSON(t, before, now)
			want := profile.Reading{Began: before.At, At: later, Kinds: []profile.Kind{tc.want}}
			if diff := cmp.Diff(want, now.Since(before), same); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if asJSON(t, before, now) != untouched {
				t.Error("the readings were changed")
			}
		})
	}
}

func TestAReadingOfAnotherProgramIsIgnored(t *testing.T) {
	now := profile.Reading{Began: later, At: later.Add(time.Second), Kinds: []profile.Kind{{Kind: "Web", Requests: 5}}}
	before := profile.Reading{Began: began, At: began.Add(time.Second), Kinds: []profile.Kind{{Kind: "Web", Requests: 2}}}
	if diff := cmp.Diff(now, now.Since(before)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func asJSON(t *testing.T, all ...profile.Reading) string {
	t.Helper()
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
