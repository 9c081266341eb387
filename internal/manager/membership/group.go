package membership

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// GroupHolder is the holder of the group's Lease: all replicas together.
const GroupHolder = "replicas"

// group is the Lease that all replicas hold together. Its transitions are the epochs: each tenure has a later
// one than those before.
type group struct {
	leases   coordination.LeaseInterface
	name     string
	duration time.Duration
	// lastEpoch returns the largest epoch that the watch has delivered.
	lastEpoch func() int32

	mu sync.Mutex
	// epoch is the largest that this process has written.
	epoch int32
	// other is the Lease while somebody else holds it, as it was read first, and since when.
	other *coordinationv1.Lease
	since time.Time
}

// heldByOther is the error while a leader without sharding runs, or may run.
type heldByOther struct {
	holder string
	// left is when its Lease expires, if it is not renewed.
	left time.Duration
}

func (e *heldByOther) Error() string {
	return fmt.Sprintf("%s leads the controllers, without sharding; waiting until it stops", e.holder)
}

// advance renews the Lease and returns a new epoch. It acquires the Lease if nobody holds it, or its holder has
// not renewed it in time.
func (g *group) advance(ctx context.Context) (epoch int64, err error) {
	return g.write(ctx, 1)
}

// renew renews the Lease.
func (g *group) renew(ctx context.Context) error {
	_, err := g.write(ctx, 0)
	return err
}

// write renews the Lease, adds to its epoch, and returns the new one. A Lease that it acquires has a later epoch in any case.
func (g *group) write(ctx context.Context, epochs int32) (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		lease, err := g.leases.Get(ctx, g.name, metav1.GetOptions{})
		absent := apierrors.IsNotFound(err)
		switch {
		case absent:
			// Leaders of a Lease that was deleted have had smaller epochs: see manager's lease.Create. Replicas that join or
			// leave may have advanced it more often than once in a minute.
			last := max(int32(time.Now().Unix()/60), g.epoch, g.lastEpoch())
			lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: g.name}, Spec: coordinationv1.LeaseSpec{LeaseTransitions: &last}}
		case err != nil:
			return 0, fmt.Errorf("read Lease %s: %w", g.name, err)
		}
		if left := g.left(lease); left > 0 {
			return 0, &heldByOther{ptr.Deref(lease.Spec.HolderIdentity, ""), left}
		}
		now := metav1.NowMicro()
		if ptr.Deref(lease.Spec.HolderIdentity, "") != GroupHolder {
			lease.Spec.HolderIdentity, lease.Spec.AcquireTime, epochs = ptr.To(GroupHolder), &now, max(epochs, 1)
		}
		if lease.Labels == nil {
			lease.Labels = map[string]string{}
		}
		lease.Labels[GroupLabel] = g.name
		lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &now, ptr.To(int32(g.duration/time.Second))
		lease.Spec.LeaseTransitions = ptr.To(ptr.Deref(lease.Spec.LeaseTransitions, 0) + epochs)
		if absent {
			lease, err = g.leases.Create(ctx, lease, metav1.CreateOptions{})
		} else {
			lease, err = g.leases.Update(ctx, lease, metav1.UpdateOptions{})
		}
		switch {
		case err == nil:
			g.epoch = *lease.Spec.LeaseTransitions
			return int64(g.epoch), nil
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
			return 0, fmt.Errorf("write Lease %s: %w", g.name, err)
		}
	}
}

// release lets others acquire the Lease at once: the last replica stops.
func (g *group) release(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	lease, err := g.leases.Get(ctx, g.name, metav1.GetOptions{})
	if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != GroupHolder {
		return ignoreNotFound(err)
	}
	lease.Spec.HolderIdentity = ptr.To("")
	_, err = g.leases.Update(ctx, lease, metav1.UpdateOptions{})
	return ignoreNotFound(err)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// left is how long the Lease may still be held by somebody else: until its duration has passed since it was
// first seen in this version.
func (g *group) left(lease *coordinationv1.Lease) time.Duration {
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if holder == "" || holder == GroupHolder {
		g.other = nil
		return 0
	}
	if g.other == nil || g.other.ResourceVersion != lease.ResourceVersion {
		g.other, g.since = lease, time.Now()
	}
	duration := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return duration + duration/10 - time.Since(g.since)
}
