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
)

// lease is the lease that processes compete for, and knows until when no other can
// have got it: others take it once they have seen nobody renew it for its duration,
// and they can't have seen the last renewal before it was sent.
type lease struct {
	resourcelock.Interface
	duration time.Duration
	sent     atomic.Pointer[time.Time]
}

func newLease(config *rest.Config, namespace, name string, t timing) (*lease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this process: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, name,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, config, t.renew)
	if err != nil {
		return nil, fmt.Errorf("prepare leader election: %w", err)
	}
	return &lease{Interface: lock, duration: t.lease}, nil
}

// Create takes a lease that nobody had.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renewed(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update takes the lease, renews it, or gives it up.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != l.Identity() {
		l.sent.Store(nil)
	}
	return l.renewed(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *lease) renewed(record resourcelock.LeaderElectionRecord, write func() error) error {
	sent := time.Now()
	err := write()
	if err == nil && record.HolderIdentity == l.Identity() {
		l.sent.Store(&sent)
	}
	return err
}

// until is until when no other process can have the lease. While this one hasn't
// got it, that is over.
func (l *lease) until() time.Time {
	if sent := l.sent.Load(); sent != nil {
		now := time.Now()
		return now.Add(l.duration - passed(*sent, now))
	}
	return time.Unix(0, 0)
}

// passed is how long it has been by the clock that says more: the one that measures
// time stands still while a machine is suspended, and the one on the wall may be set
// back.
func passed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// timing is how long a lease lasts, for how long a leader tries to renew it before
// it gives up, and how often it does.
type timing struct{ lease, renew, retry time.Duration }

// leaseDuration is how long a lease lasts by default.
const leaseDuration = 15 * time.Second

// timingOf derives the rest from how long a lease lasts, in the usual proportions.
func timingOf(duration time.Duration) timing {
	if duration <= 0 {
		duration = leaseDuration
	}
	// The lease says in whole seconds how long it lasts, and others go by that.
	duration = (duration + time.Second - 1).Truncate(time.Second)
	return timing{duration, duration * 2 / 3, duration * 2 / 15}
}
