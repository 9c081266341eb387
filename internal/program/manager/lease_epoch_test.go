package manager

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// recordedLock records what is written to a lease.
type recordedLock struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
}

func (l *recordedLock) Identity() string { return "own" }

func (l *recordedLock) Create(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.record = r
	return nil
}

func (l *recordedLock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.record = r
	return nil
}

func recordOf(holder string, transitions int) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaderTransitions: transitions}
}

// TestTheEpochOfALeaseGrows creates a lease anew, after another one has had many leaders.
func TestTheEpochOfALeaseGrows(t *testing.T) {
	lock := &recordedLock{}
	l := &lease{Interface: lock, duration: time.Minute}
	renew := func(write func(context.Context, resourcelock.LeaderElectionRecord) error, transitions int) int64 {
		t.Helper()
		if err := write(t.Context(), recordOf("own", transitions)); err != nil {
			t.Fatal(err)
		}
		holder, epoch := l.leader()
		if holder != "own" || epoch != int64(lock.record.LeaderTransitions) {
			t.Errorf("the leader is %s with epoch %d; the lease has %d", holder, epoch, lock.record.LeaderTransitions)
		}
		return epoch
	}
	first := renew(l.Create, 0)
	if first < time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Unix()/60 {
		t.Errorf("a new lease begins with epoch %d", first)
	}
	if again := renew(l.Update, 0); again != first { // the elector does not know what Create has written
		t.Errorf("a renewal has epoch %d", again)
	}
	if next := renew(l.Update, int(first)+1); next != first+1 {
		t.Errorf("the next leader has epoch %d", next)
	}
}
