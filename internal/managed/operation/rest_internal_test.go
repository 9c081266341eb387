package operation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

func TestAResourceAtRestIsObservedLessOften(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	cases := map[string]struct{ interval, longest, rested, want time.Duration }{
		"changed just now":                    {5 * minute, 20 * minute, minute, 5 * minute},
		"an hour ago":                         {5 * minute, 20 * minute, hour, 10 * minute},
		"six hours ago":                       {5 * minute, 20 * minute, 6 * hour, 15 * minute},
		"a day ago":                           {5 * minute, 20 * minute, 24 * hour, 20 * minute},
		"a year ago":                          {5 * minute, 20 * minute, 365 * 24 * hour, 20 * minute},
		"no more than the longest interval":   {5 * minute, 12 * minute, 24 * hour, 12 * minute},
		"a longer interval stays":             {30 * minute, 20 * minute, 24 * hour, 30 * minute},
		"a kind that does not ask for it":     {minute, 0, 24 * hour, minute},
		"the clock is behind the last change": {5 * minute, 20 * minute, -hour, 5 * minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := restInterval(tc.interval, tc.longest, tc.rested); got != tc.want {
				t.Errorf("the interval is %s, not %s", got, tc.want)
			}
		})
	}
}

func TestAChangeEndsTheRest(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	s := State{
		Now: now, Binding: &binding.BindingSpec{}, Observed: &external.Observation{UpToDate: external.Yes},
		Resource: Resource{PollInterval: time.Minute, MaxPollInterval: 4 * time.Minute, ChangedAt: now.Add(-48 * time.Hour)},
	}
	if got := s.pollAtRest(); got != 4*time.Minute {
		t.Errorf("after two days, the interval is %s", got)
	}
	s.Binding.Ended = &binding.BindingEnded{At: metav1.NewMicroTime(now.Add(-time.Second))}
	if got := s.pollAtRest(); got != time.Minute {
		t.Errorf("after an operation, the interval is %s", got)
	}
	s.Binding.Ended, s.Observed.UpToDate = nil, external.No
	if got := s.pollAtRest(); got != time.Minute {
		t.Errorf("of a resource that differs, the interval is %s", got)
	}
}
