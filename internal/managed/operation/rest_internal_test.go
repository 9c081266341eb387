package operation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

func TestImportantResourcesAreObservedMoreOften(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	cases := map[string]struct {
		interval, longest, rested time.Duration
		isUnready                 bool
		want                      time.Duration
	}{
		"changed just now":                  {5 * minute, 20 * minute, minute, false, 5 * minute},
		"an hour ago":                       {5 * minute, 20 * minute, hour, false, 10 * minute},
		"six hours ago":                     {5 * minute, 20 * minute, 6 * hour, false, 15 * minute},
		"a day ago":                         {5 * minute, 20 * minute, 24 * hour, false, 20 * minute},
		"a year ago":                        {5 * minute, 20 * minute, 365 * 24 * hour, false, 20 * minute},
		"no more than the longest interval": {5 * minute, 12 * minute, 24 * hour, false, 12 * minute},
		"a longer interval stays":           {30 * minute, 20 * minute, 24 * hour, false, 30 * minute},
		"a kind or object that does not ask for it":     {minute, 0, 24 * hour, false, minute},
		"the clock is behind the last change":           {5 * minute, 20 * minute, -hour, false, 5 * minute},
		"not ready, changed just now":                   {5 * minute, 20 * minute, minute, true, minute},
		"not ready, with a short interval":              {minute, 20 * minute, minute, true, 30 * time.Second},
		"not ready, with a very short interval":         {10 * time.Second, 20 * minute, minute, true, 10 * time.Second},
		"not ready since an hour":                       {5 * minute, 20 * minute, hour, true, 5 * minute},
		"not ready since a day":                         {5 * minute, 20 * minute, 24 * hour, true, 5 * minute},
		"not ready, of a kind that does not ask for it": {5 * minute, 0, minute, true, 5 * minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := restInterval(tc.interval, tc.longest, tc.rested, !tc.isUnready); got != tc.want {
				t.Errorf("the interval is %s, not %s", got, tc.want)
			}
		})
	}
}

func TestAChangeEndsTheRest(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	s := State{
		Now: now, Binding: &binding.BindingSpec{}, Observed: &external.Observation{UpToDate: external.Yes, Ready: external.Yes},
		Resource: Resource{PollInterval: time.Minute, MaxPollInterval: 4 * time.Minute, ChangedAt: now.Add(-48 * time.Hour)},
	}
	if got := s.pollAtRest(); got != 4*time.Minute {
		t.Errorf("after two days, the interval is %s", got)
	}
	s.Binding.Ended = &binding.BindingEnded{At: metav1.NewMicroTime(now.Add(-time.Second))}
	if got := s.pollAtRest(); got != time.Minute {
		t.Errorf("after an operation, the interval is %s", got)
	}
	s.Observed.Ready = external.No
	if got := s.pollAtRest(); got != 30*time.Second {
		t.Errorf("of a resource that is not ready after an operation, the interval is %s", got)
	}
	s.Binding.Ended, s.Observed.UpToDate, s.Observed.Ready = nil, external.No, external.Yes
	if got := s.pollAtRest(); got != time.Minute {
		t.Errorf("of a resource that differs, the interval is %s", got)
	}
}
