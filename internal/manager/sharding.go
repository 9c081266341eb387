package manager

import (
	"fmt"

	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

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
