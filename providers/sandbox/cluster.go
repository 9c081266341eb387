package sandbox

import (
	"slices"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

var roles = kind[*v1alpha1.Role]{
	typ:    cloud.TypeRole,
	chosen: []string{"trust"},
	scope:  func(r *v1alpha1.Role) string { return scope(r.Spec.ForProvider.Region) },
	wanted: func(r *v1alpha1.Role, there *cloud.Resource) cloud.Properties {
		p, init := r.Spec.ForProvider, r.Spec.InitProvider
		if there == nil {
			return cloud.Properties{Trust: said(p.Trust, init.Trust), Policies: first(p.Policies, init.Policies)}
		}
		is := there.Properties
		return cloud.Properties{Trust: said(p.Trust, &is.Trust), Policies: first(p.Policies, is.Policies)}
	},
	show: func(r cloud.Resource) map[string]any {
		return shown(r, map[string]any{"trust": r.Properties.Trust, "policies": texts(r.Properties.Policies)})
	},
}

var clusters = kind[*v1alpha1.Cluster]{
	typ:    cloud.TypeCluster,
	chosen: []string{"nodes"},
	scope:  func(c *v1alpha1.Cluster) string { return scope(c.Spec.ForProvider.Region) },
	wanted: func(c *v1alpha1.Cluster, there *cloud.Resource) cloud.Properties {
		p, init := c.Spec.ForProvider, c.Spec.InitProvider
		if there == nil {
			return cloud.Properties{
				Subnets: first(p.SubnetIDs, init.SubnetIDs), Role: said(p.RoleID, init.RoleID), Nodes: int(said(p.Nodes, init.Nodes)),
			}
		}
		is := there.Properties
		nodes := int64(is.Nodes)
		return cloud.Properties{Subnets: first(p.SubnetIDs, is.Subnets), Role: said(p.RoleID, &is.Role), Nodes: int(said(p.Nodes, &nodes))}
	},
	show: func(r cloud.Resource) map[string]any {
		is := r.Properties
		return shown(r, map[string]any{"subnetIDs": texts(is.Subnets), "roleID": is.Role, "nodes": int64(is.Nodes), "endpoint": r.Endpoint})
	},
	connection: func(r cloud.Resource) map[string][]byte {
		if r.Endpoint == "" {
			return nil
		}
		return map[string][]byte{"endpoint": []byte(r.Endpoint), "certificate": []byte(r.Certificate)}
	},
}

// first is the first list that says something.
func first(lists ...[]string) []string {
	i := slices.IndexFunc(lists, func(l []string) bool { return len(l) > 0 })
	if i < 0 {
		return nil
	}
	return lists[i]
}

// texts is a list as an unstructured object holds it.
func texts(list []string) []any {
	out := make([]any, len(list))
	for i, text := range list {
		out[i] = text
	}
	return out
}
