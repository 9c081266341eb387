package manager

import (
	"context"
	"fmt"
	"time"

	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube/fence"
	"github.com/espalier-dev/espalier/internal/manager/membership"
)

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

// tenureUntil is Environment.LeaderUntil with sharding. Nothing may be done for an object that is not
// reconciled here.
func tenureUntil(ctx context.Context) time.Time {
	if t := fence.Of(ctx); t != nil && t.Check() == nil {
		return t.Until()
	}
	return time.Unix(0, 0)
}

// tenureOf is Environment.Leader with sharding.
func tenureOf(ctx context.Context) (holder string, epoch int64) {
	if t := fence.Of(ctx); t != nil {
		return t.Holder, t.Epoch
	}
	return "", 0
}
