package manager

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/espalier-dev/espalier/internal/serving/cluster"
)

// lease is the lock of the leader election, and computes until when no other process can
// acquire it: others do so once they have observed no renewal for the lease's duration, and
// they cannot have observed the last renewal before it was sent.
type lease struct {
	resourcelock.Interface
	duration    time.Duration
	lastRenewal atomic.Pointer[time.Time]
	// firstEpoch is the least epoch of this process: the minute in which it acquired the lease.
	firstEpoch atomic.Int64
	epoch      atomic.Int64
}

func newLease(config *rest.Config, at cluster.Lease, t timing) (*lease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("get the host name: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, at.Namespace, at.Name,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, config, t.renew)
	if err != nil {
		return nil, fmt.Errorf("prepare leader election: %w", err)
	}
	return &lease{Interface: lock, duration: t.lease}, nil
}

// Create acquires the lease by creating it.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.recordRenewal(record, func(record resourcelock.LeaderElectionRecord) error { return l.Interface.Create(ctx, record) })
}

// Update acquires, renews or releases the lease.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != l.Identity() {
		l.lastRenewal.Store(nil)
	}
	return l.recordRenewal(record, func(record resourcelock.LeaderElectionRecord) error { return l.Interface.Update(ctx, record) })
}

// recordRenewal writes a record of the elector. Its transitions are at least the minute in which this process acquired the
// lease: leaders of a lease that was deleted, or of another installation that has worked on an object before, have had
// smaller epochs. The elector itself counts from what it has read.
func (l *lease) recordRenewal(record resourcelock.LeaderElectionRecord, write func(resourcelock.LeaderElectionRecord) error) error {
	sent := time.Now()
	if l.lastRenewal.Load() == nil && record.HolderIdentity == l.Identity() {
		l.firstEpoch.Store(sent.Unix() / 60)
	}
	record.LeaderTransitions = max(record.LeaderTransitions, int(l.firstEpoch.Load()))
	err := write(record)
	if err == nil && record.HolderIdentity == l.Identity() {
		l.epoch.Store(int64(record.LeaderTransitions))
		l.lastRenewal.Store(&sent)
	}
	return err
}

// leader returns this process and the epoch of its last leadership: the number of changes of
// the leader before it.
func (l *lease) leader() (holder string, epoch int64) { return l.Identity(), l.epoch.Load() }

// heldUntil returns the time until which no other process can acquire the lease. While this
// process does not hold it, that time is in the past.
func (l *lease) heldUntil() time.Time {
	if sent := l.lastRenewal.Load(); sent != nil {
		now := time.Now()
		return now.Add(l.duration - elapsed(*sent, now))
	}
	return time.Unix(0, 0)
}

// elapsed returns the time between two moments, by which a lease may have expired: by the monotonic or the wall clock,
// whichever says more. The monotonic clock stops while a machine is suspended, and the wall clock may be set back.
func elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// timing is the lease duration, the renew deadline and the retry period, as leader election
// calls them.
type timing struct{ lease, renew, retry time.Duration }

// leaseDuration is the default.
const leaseDuration = 15 * time.Second

// timingFor derives the other two from the lease duration, in client-go's usual proportions.
func timingFor(duration time.Duration) timing {
	if duration <= 0 {
		duration = leaseDuration
	}
	// The duration in the Lease object has whole seconds, and other processes rely on it.
	duration = (duration + time.Second - 1).Truncate(time.Second)
	return timing{duration, duration * 2 / 3, duration * 2 / 15}
}
