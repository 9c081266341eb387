package ending

import (
	"testing"
	"time"
)

func TestWhenACountIsReported(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	counted := func(n int, ago time.Duration) Count { return Count{N: n, At: now.Add(-ago)} }
	unknown := Count{Unknown: "forbidden"}
	cases := map[string]struct {
		left, before Count
		want         time.Duration
	}{
		"The first is reported at once":      {counted(1000, 0), Count{}, 0},
		"One less of many waits":             {counted(999, 0), counted(1000, time.Second), 4 * time.Second},
		"It is reported after a while":       {counted(999, 0), counted(1000, reportAfter), 0},
		"And however long ago that is":       {counted(999, 0), counted(1000, time.Hour), 0},
		"Half of them is reported at once":   {counted(500, 0), counted(1000, time.Second), 0},
		"More of them is":                    {counted(1001, 0), counted(1000, time.Second), 0},
		"Each of the last is":                {counted(9, 0), counted(10, time.Second), 0},
		"That they can't be counted is":      {unknown, counted(1000, time.Second), 0},
		"And that they can be counted again": {counted(1000, 0), unknown, 0},
	}
	for name, tc := range cases {
		if got := tc.left.Due(tc.before, now); got != tc.want {
			t.Errorf("%s: want %s, got %s", name, tc.want, got)
		}
	}
}
