package manager

import (
	"testing"
	"time"
)

// TestALeaseLastsWholeSeconds is about lengths that a lease can't hold: it holds whole
// seconds, and others go by what it holds.
func TestALeaseLastsWholeSeconds(t *testing.T) {
	for said, want := range map[time.Duration]time.Duration{
		0: leaseDuration, 15 * time.Second: 15 * time.Second, 2500 * time.Millisecond: 3 * time.Second, 300 * time.Millisecond: time.Second,
	} {
		got := timingFor(said)
		if held := time.Duration(int(got.lease/time.Second)) * time.Second; got.lease != held || got.lease != want {
			t.Errorf("of %s: this process counts on %s, and others take it after %s", said, got.lease, held)
		}
		if got.renew >= got.lease || got.retry >= got.renew {
			t.Errorf("of %s: %+v", said, got)
		}
	}
}
