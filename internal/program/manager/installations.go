package manager

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
)

// shardAnnotation is on the lease of an installation that works on some objects only: which ones.
const shardAnnotation = "espalier.dev/shard"

// leases are those of a namespace; coordination.LeaseInterface has more.
type leases interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error)
	List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error)
}

// installations are those of this program in the cluster. Each has a lease, which says what it works on. It is safe for
// concurrent use; nil if this process has no lease, and knows no others.
type installations struct {
	leases   leases
	program  string
	own      cluster.Lease
	selector shard.Selector
	duration time.Duration
	log      logr.Logger
	// overlap names the installation that this one waits for; nil if it does not wait.
	overlap atomic.Pointer[string]
}

func newInstallations(o Options, config *rest.Config) (*installations, error) {
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("prepare leader election: %w", err)
	}
	return &installations{
		leases: client.Leases(o.LeaderElectionNamespace), program: o.Name, own: o.electionLease(), selector: o.Shard,
		duration: timingFor(o.LeaseDuration).lease, log: o.Log.WithName("installations"),
	}, nil
}

// wait returns the installation that this one waits for; empty if it does not wait.
func (i *installations) wait() string {
	if i == nil {
		return ""
	}
	return ptr.Deref(i.overlap.Load(), "")
}

// awaitDisjoint records on its lease what this installation works on. Then it waits until no other installation works on
// the same objects, or returns an error: after the time that a rollout needs to end the processes of another one.
func (i *installations) awaitDisjoint(ctx context.Context) error {
	if i == nil {
		return nil
	}
	if err := i.record(ctx); err != nil {
		return err
	}
	defer i.overlap.Store(nil)
	for deadline := time.Now().Add(4 * i.duration); ; {
		other, err := i.overlapping(ctx)
		switch {
		case ctx.Err() != nil, err == nil && other == "":
			return nil
		case apierrors.IsForbidden(err):
			i.log.Info("cannot list Leases: another installation that works on the same objects would not be noticed", "reason", err.Error())
			return nil
		case time.Now().After(deadline) && err != nil:
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("%s would work on the same objects as this installation, which %s. Set --%s or --%s of both so that they differ", other,
				describe(i.selector), shard.NamespacesFlag, shard.LabelsFlag)
		}
		if i.wait() != other {
			i.overlap.Store(&other)
			i.log.Info("waiting for another installation that works on the same objects", "other", other)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(i.duration * 2 / 15):
		}
	}
}

// record writes the shard on the lease. An installation that works on all objects writes nothing.
func (i *installations) record(ctx context.Context) error {
	if i.selector.All() {
		return nil
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := i.leases.Get(ctx, i.own.Name, metav1.GetOptions{})
		if err != nil || lease.Annotations[shardAnnotation] == i.selector.Encode() {
			return err
		}
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shardAnnotation, i.selector.Encode())
		_, err = i.leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("record on Lease %s which objects this installation works on: %w", i.own, err)
	}
	return nil
}

// overlapping describes another running installation that may work on the same objects; empty if there is none.
func (i *installations) overlapping(ctx context.Context) (string, error) {
	held, err := i.held(ctx)
	for _, lease := range held {
		if lease.Name == i.own.Name {
			continue
		}
		other, err := shard.Decode(lease.Annotations[shardAnnotation])
		if err != nil || lease.Name != i.own.Program && other.All() {
			continue // it has not recorded its shard yet, and reads ours once it has
		}
		if i.selector.Overlaps(other) {
			return fmt.Sprintf("the installation with Lease %s/%s (held by %s), which %s,", lease.Namespace, lease.Name,
				ptr.Deref(lease.Spec.HolderIdentity, ""), describe(other)), nil
		}
	}
	return "", err
}

// running returns the names of the leases of all installations that run. One that works on all objects runs alone: it
// needs no permission to list Leases, which a role of an earlier version lacks.
func (i *installations) running(ctx context.Context) (names []string, err error) {
	held, err := i.held(ctx)
	if i.selector.All() && apierrors.IsForbidden(err) {
		return []string{i.own.Name}, nil
	}
	for _, lease := range held {
		names = append(names, lease.Name)
	}
	return names, err
}

// held returns the leases of the program that are held. The clock of a holder may differ from ours by a lease duration.
func (i *installations) held(ctx context.Context) (out []coordinationv1.Lease, err error) {
	all, err := i.leases.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the Leases of other installations: %w", err)
	}
	for _, lease := range all.Items {
		spec := lease.Spec
		if !IsLeaseOf(i.program, lease.Name) || ptr.Deref(spec.HolderIdentity, "") == "" || spec.RenewTime == nil {
			continue
		}
		if lasts := time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 0)) * time.Second; time.Since(spec.RenewTime.Time) < 2*lasts {
			out = append(out, lease)
		}
	}
	return out, nil
}

func describe(s shard.Selector) string {
	if s.All() {
		return "works on all objects"
	}
	return "has " + s.String()
}
