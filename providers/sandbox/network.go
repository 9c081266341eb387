package sandbox

import (
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

var networks = kind[*v1alpha1.Network]{
	typ:    cloud.TypeNetwork,
	chosen: []string{"cidr"},
	scope:  func(n *v1alpha1.Network) string { return scope(n.Spec.ForProvider.Region) },
	wanted: func(n *v1alpha1.Network, there *cloud.Resource) cloud.Properties {
		p, init := n.Spec.ForProvider, n.Spec.InitProvider
		if there == nil {
			return cloud.Properties{CIDR: said(p.CIDR, init.CIDR)}
		}
		return cloud.Properties{CIDR: said(p.CIDR, &there.Properties.CIDR)}
	},
	show: func(r cloud.Resource) map[string]any {
		return shown(r, map[string]any{"cidr": r.Properties.CIDR})
	},
}

var subnets = kind[*v1alpha1.Subnet]{
	typ:    cloud.TypeSubnet,
	chosen: []string{"cidr"},
	scope:  func(s *v1alpha1.Subnet) string { return scope(s.Spec.ForProvider.Region) },
	wanted: func(s *v1alpha1.Subnet, there *cloud.Resource) cloud.Properties {
		p, init := s.Spec.ForProvider, s.Spec.InitProvider
		if there == nil {
			return cloud.Properties{Network: said(p.NetworkID, init.NetworkID), CIDR: said(p.CIDR, init.CIDR)}
		}
		is := there.Properties
		return cloud.Properties{Network: said(p.NetworkID, &is.Network), CIDR: said(p.CIDR, &is.CIDR)}
	},
	show: func(r cloud.Resource) map[string]any {
		return shown(r, map[string]any{"networkID": r.Properties.Network, "cidr": r.Properties.CIDR})
	},
}

// shown is what status.atProvider tells of every kind, with what it tells of one.
func shown(r cloud.Resource, more map[string]any) map[string]any {
	more["id"], more["region"], more["state"] = r.ID, r.Scope, string(r.State)
	return more
}
