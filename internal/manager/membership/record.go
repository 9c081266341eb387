package membership

import (
	"context"
	"errors"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/kube/fence"
	"github.com/espalier-dev/espalier/internal/shard"
)

const (
	// GroupLabel is on the Leases of all replicas, and on the group's: its value is the name of the latter.
	GroupLabel = "espalier.dev/replicas-of"
	// viewAnnotation has the replicas over which the one with this Lease spreads the slots.
	viewAnnotation = "espalier.dev/view"
	// restingAnnotation has the Holds for which the replica rests.
	restingAnnotation = "espalier.dev/resting"
)

// ownRecord is the Lease of this process. It is safe for concurrent use.
type ownRecord struct {
	Config
	id string

	mu    sync.Mutex // held during writes: they follow one another
	lease *coordinationv1.Lease
	// version is the resource version of the last write that published something.
	version string
	// validity is guarded by its own lock: reconciles read it during a write.
	validity sync.Mutex
	renewed  time.Time // when the last successful write was sent
}

// createRecord creates the Lease of a replica that has no view yet, and rests for some Holds.
func createRecord(ctx context.Context, c Config, id, resting string) (*ownRecord, error) {
	now := metav1.NowMicro()
	r := &ownRecord{Config: c, id: id}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: c.nameOf(id), Labels: map[string]string{GroupLabel: c.Group}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &id, AcquireTime: &now, RenewTime: &now, LeaseDurationSeconds: ptr.To(int32(c.Duration / time.Second))},
	}
	annotate(lease, restingAnnotation, resting)
	sent := time.Now()
	var err error
	if r.lease, err = c.Leases.Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	r.renewed, r.version = sent, r.lease.ResourceVersion
	return r, nil
}

// change writes the Lease, which renews it too. It fails if the Lease has expired or was deleted.
func (r *ownRecord) change(ctx context.Context, change func(*coordinationv1.Lease)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.update(ctx, change)
	if !apierrors.IsConflict(err) {
		return err
	}
	// The answer to the last write was lost, or somebody has edited the Lease.
	current, err := r.Leases.Get(ctx, r.lease.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && current.UID != r.lease.UID:
		return errExpired
	case err != nil:
		return err
	}
	r.lease, r.version = current, current.ResourceVersion
	return r.update(ctx, change)
}

func (r *ownRecord) update(ctx context.Context, change func(*coordinationv1.Lease)) error {
	if !r.isValid() {
		return errExpired
	}
	next := r.lease.DeepCopy()
	now := metav1.NowMicro()
	next.Spec.RenewTime = &now
	change(next)
	sent := time.Now()
	written, err := r.Leases.Update(ctx, next, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return errExpired
	}
	if err != nil {
		return err
	}
	if written.Annotations[viewAnnotation] != r.lease.Annotations[viewAnnotation] {
		r.version = written.ResourceVersion
	}
	r.lease = written
	r.validity.Lock()
	r.renewed = sent
	r.validity.Unlock()
	return nil
}

// until is the time until which no other replica can have deleted the Lease.
func (r *ownRecord) until() time.Time {
	r.validity.Lock()
	defer r.validity.Unlock()
	now := time.Now()
	return now.Add(r.Duration - fence.Elapsed(r.renewed, now))
}

func (r *ownRecord) isValid() bool { return time.Now().Before(r.until()) }

// renewUntilLost renews the Lease in each period, and returns an error once it has expired or was deleted.
func (r *ownRecord) renewUntilLost(ctx context.Context, period time.Duration) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(period):
		}
		err := func() error {
			ctx, cancel := context.WithDeadline(ctx, r.until())
			defer cancel()
			return r.change(ctx, func(*coordinationv1.Lease) {})
		}()
		switch {
		case err == nil || ctx.Err() != nil:
		case !r.isValid() || errors.Is(err, errExpired):
			return errExpired
		default:
			r.Log.V(1).Info("the Lease of this replica was not renewed; retrying", "reason", err.Error())
		}
	}
}

// publish writes the view by which this replica works.
func (r *ownRecord) publish(ctx context.Context, v shard.View) error {
	return r.change(ctx, func(l *coordinationv1.Lease) { annotate(l, viewAnnotation, v.String()) })
}

// rest writes for which Holds this replica rests, unless that is written.
func (r *ownRecord) rest(ctx context.Context, holds string) error {
	r.mu.Lock()
	same := r.lease.Annotations[restingAnnotation] == holds
	r.mu.Unlock()
	if same {
		return nil
	}
	return r.change(ctx, func(l *coordinationv1.Lease) { annotate(l, restingAnnotation, holds) })
}

func annotate(l *coordinationv1.Lease, name, value string) {
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[name] = value
}

// published is what this replica has published, and the resource version from which on that is read.
func (r *ownRecord) published() (shard.Record, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return recordOf(r.lease), r.version
}

func recordOf(l *coordinationv1.Lease) shard.Record {
	return shard.Record{ID: ptr.Deref(l.Spec.HolderIdentity, l.Name), View: shard.ParseView(l.Annotations[viewAnnotation])}
}

// delete deletes the Lease, so that other replicas need not wait until it expires.
func (r *ownRecord) delete(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.Leases.Delete(ctx, r.lease.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(r.lease.UID))})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
