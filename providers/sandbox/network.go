package sandbox

import (
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

var networks = kind[*v1alpha1.Network]{
	typ:      cloud.TypeNetwork,
	lateInit: []string{"cidr"},
	scope:    func(n *v1alpha1.Network) string { return scope(n.Spec.ForProvider.Region) },
	wanted: func(n *v1alpha1.Network, current *cloud.Resource) cloud.Properties {
		p, init := n.Spec.ForProvider, n.Spec.InitProvider
		if current == nil {
			return cloud.Properties{CIDR: firstSet(p.CIDR, init.CIDR)}
		}
		return cloud.Properties{CIDR: firstSet(p.CIDR, &current.Properties.CIDR)}
	},
	atProvider: func(r cloud.Resource) map[string]any {
		return baseAtProvider(r, map[string]any{"cidr": r.Properties.CIDR})
	},
}

var subnets = kind[*v1alpha1.Subnet]{
	typ:      cloud.TypeSubnet,
	lateInit: []string{"cidr"},
	scope:    func(s *v1alpha1.Subnet) string { return scope(s.Spec.ForProvider.Region) },
	wanted: func(s *v1alpha1.Subnet, current *cloud.Resource) cloud.Properties {
		p, init := s.Spec.ForProvider, s.Spec.InitProvider
		if current == nil {
			return cloud.Properties{Network: firstSet(p.NetworkID, init.NetworkID), CIDR: firstSet(p.CIDR, init.CIDR)}
		}
		is := current.Properties
		return cloud.Properties{Network: firstSet(p.NetworkID, &is.Network), CIDR: firstSet(p.CIDR, &is.CIDR)}
	},
	atProvider: func(r cloud.Resource) map[string]any {
		return baseAtProvider(r, map[string]any{"networkID": r.Properties.Network, "cidr": r.Properties.CIDR})
	},
}

// baseAtProvider adds the fields of status.atProvider that all kinds have.
func baseAtProvider(r cloud.Resource, more map[string]any) map[string]any {
	more["id"], more["region"], more["state"] = r.ID, r.Scope, string(r.State)
	return more
}
