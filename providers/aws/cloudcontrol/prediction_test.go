package cloudcontrol

import (
	"testing"
	"time"
)

// after returns requests with gaps of some seconds between them, and when the last one was.
func after(gaps ...int) (r requests, last time.Time) {
	last = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	r.add(last)
	for _, gap := range gaps {
		last = last.Add(time.Duration(gap) * time.Second)
		r.add(last)
	}
	return r, last
}

func TestWhatIsReadWithOthers(t *testing.T) {
	const none = -1
	cases := map[string]struct {
		gaps []int
		// now is the seconds since the last request, read those to the time of the result that there is.
		now, read int
		limit     time.Duration
		want      bool
	}{
		"the next request is near":                                 {[]int{60, 60}, 40, none, maxAge, true},
		"the next request is far, and the result would be too old": {[]int{60, 60}, 10, none, maxAge, false},
		"the result can be used at the next request":               {[]int{60, 60}, 45, 30, maxAge, false},
		"the result will be too old at the next request":           {[]int{60, 60}, 45, 15, maxAge, true},
		"only a fresh result can be used":                          {[]int{60, 60}, 40, none, freshAge, false},
		"a fresh result can be used":                               {[]int{60, 60}, 55, none, freshAge, true},
		"an event does not change the interval":                    {[]int{60, 60, 5}, 5, none, maxAge, false},
		"the interval is not known":                                {nil, 1, none, maxAge, true},
		"the next request is late":                                 {[]int{60, 60}, 200, none, maxAge, true},
		"nobody requests it any more":                              {[]int{60, 60}, 3601, none, maxAge, false},
		"it is requested every two hours":                          {[]int{7200, 7200}, 7200, none, maxAge, true},
		"of a long interval, a result is not used for long":        {[]int{7200, 7200}, 6000, none, maxAge, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, last := after(tc.gaps...)
			var read time.Time
			if tc.read != none {
				read = last.Add(time.Duration(tc.read) * time.Second)
			}
			if got := r.isWorthReading(last.Add(time.Duration(tc.now)*time.Second), read, tc.limit); got != tc.want {
				t.Errorf("it is read: %t", got)
			}
		})
	}
}

func TestTheAgeOfResults(t *testing.T) {
	cases := map[string]struct {
		gaps        []int
		limit, want time.Duration
	}{
		"three quarters of the interval":         {[]int{60, 60}, maxAge, 45 * time.Second},
		"also after an event":                    {[]int{60, 60, 5}, maxAge, 45 * time.Second},
		"a short interval allows a fresh result": {[]int{1, 1}, maxAge, freshAge},
		"so does one that is not known":          {nil, maxAge, freshAge},
		"not more than the limit of the request": {[]int{60, 60}, freshAge, freshAge},
		"none":                                   {[]int{60, 60}, 0, 0},
		"not more than the limit of all":         {[]int{7200, 7200}, time.Hour, maxAge},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if r, _ := after(tc.gaps...); r.age(tc.limit) != tc.want {
				t.Errorf("the age is %s, not %s", r.age(tc.limit), tc.want)
			}
		})
	}
}

func TestTheEarliestRequestIsReadFirst(t *testing.T) {
	each, _ := after(60, 60)
	rare, last := after(600, 600)
	each.last = last
	wrong, _ := after(2, 2)
	wrong.last = last
	now := last.Add(30 * time.Second)
	if each.compare(rare, now) >= 0 || rare.compare(each, now) <= 0 {
		t.Error("a later request goes first")
	}
	if wrong.compare(rare, now) <= 0 || rare.compare(wrong, now) >= 0 {
		t.Error("a resource that is requested less often than expected goes first")
	}
}
