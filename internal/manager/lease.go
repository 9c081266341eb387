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

	"github.com/espalier-dev/espalier/internal/kube/fence"
)

// lease is the lock of the leader election, and computes until when no other process can
// acquire it: others do so once they have observed no renewal for the lease's duration, and
// they cannot have observed the last renewal before it was sent.
type lease struct {
	resourcelock.Interface
	duration    time.Duration
	lastRenewal atomic.Pointer[time.Time]
	// firstEpoch is the epoch that the lease began with, if this process has created it.
	firstEpoch atomic.Int64
	epoch      atomic.Int64
}

func newLease(config *rest.Config, namespace, name string, t timing) (*lease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("get the host name: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, name,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, config, t.renew)
	if err != nil {
		return nil, fmt.Errorf("prepare leader election: %w", err)
	}
	return &lease{Interface: lock, duration: t.lease}, nil
}

// Create acquires the lease by creating it. Its transitions begin with the minute of its
// creation instead of 0: leaders of a lease that was deleted have had smaller epochs.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.firstEpoch.Store(time.Now().Unix() / 60)
	record.LeaderTransitions = int(l.firstEpoch.Load())
	return l.recordRenewal(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update acquires, renews or releases the lease.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != l.Identity() {
		l.lastRenewal.Store(nil)
	}
	// The elector counts from what it has asked Create for.
	record.LeaderTransitions = max(record.LeaderTransitions, int(l.firstEpoch.Load()))
	return l.recordRenewal(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *lease) recordRenewal(record resourcelock.LeaderElectionRecord, write func() error) error {
	sent := time.Now()
	err := write()
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
		return now.Add(l.duration - fence.Elapsed(*sent, now))
	}
	return time.Unix(0, 0)
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
