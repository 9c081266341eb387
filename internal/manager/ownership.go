package manager

import (
	"context"
	"fmt"
	"time"

	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube/fence"
	"github.com/espalier-dev/espalier/internal/manager/cluster"
	"github.com/espalier-dev/espalier/internal/manager/membership"
)

// setOwnership sets in an environment until when this process may write, and under which lease: with sharding for each
// object, with leader election as long as it holds the lock, or always, without both. It returns the membership among the
// replicas; nil without sharding.
func (o Options) setOwnership(env *Environment, lock *lease) (*membership.Membership, error) {
	env.Lease = o.electionLease()
	switch {
	case lock != nil:
		env.LeaderUntil, env.Leader = func(context.Context) time.Time { return lock.heldUntil() }, func(context.Context) (string, int64) { return lock.leader() }
	case o.Sharding:
		replicas, err := o.membership(env.Config)
		if err != nil {
			return nil, err
		}
		env.LeaderUntil, env.Leader, env.Replicas = fence.Until, fence.Holder, replicas
		return replicas, nil
	default:
		env.LeaderUntil, env.Leader = func(context.Context) time.Time { return time.Time{} }, func(context.Context) (string, int64) { return "", 0 }
	}
	return nil, nil
}

// electionLease is the lease by which this process coordinates with others; empty if it does not.
func (o Options) electionLease() cluster.Lease {
	if !o.LeaderElection && !o.Sharding {
		return cluster.Lease{}
	}
	return cluster.Lease{Namespace: o.LeaderElectionNamespace, Name: LeaseName(o.Name)}
}

// membership returns the membership of this process among the replicas.
func (o Options) membership(config *rest.Config) (*membership.Membership, error) {
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("prepare sharding: %w", err)
	}
	return membership.New(membership.Config{
		Leases: client.Leases(o.LeaderElectionNamespace), Group: LeaseName(o.Name), Duration: timingFor(o.LeaseDuration).lease,
		Log: o.Log.WithName("replicas"),
	}), nil
}
