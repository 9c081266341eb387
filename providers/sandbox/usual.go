package sandbox

import (
	"time"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// Usual is how a cloud behaves as most do: some identities are assigned, and calls for
// these may be repeated by their tokens; what is large takes its time.
func Usual() map[cloud.Type]cloud.Behaviour {
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
