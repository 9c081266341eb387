package sandbox

import (
	"time"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// TypicalBehaviours are behaviours like those of real clouds: some identities are assigned by
// the cloud, which recognizes repeated creations by their tokens, and large resources take
// longer.
func TypicalBehaviours() map[cloud.Type]cloud.Behaviour {
	assigned := cloud.Behaviour{Naming: cloud.ProviderAssigned, TokenTTL: time.Hour}
	network, subnet := assigned, assigned
	network.CreateTime, network.DeleteTime = 600*time.Millisecond, 200*time.Millisecond
	subnet.CreateTime, subnet.DeleteTime = 400*time.Millisecond, 200*time.Millisecond
	return map[cloud.Type]cloud.Behaviour{
		cloud.TypeNetwork: network,
		cloud.TypeSubnet:  subnet,
		cloud.TypeRole:    {CreateTime: 300 * time.Millisecond},
		cloud.TypeCluster: {CreateTime: 2 * time.Second, UpdateTime: time.Second, DeleteTime: time.Second},
		cloud.TypeBucket:  {},
	}
}
