package sandbox

import (
	"slices"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

var roles = kind[*v1alpha1.Role]{
	typ:      cloud.TypeRole,
	lateInit: []string{"trust"},
	scope:    func(r *v1alpha1.Role) string { return scope(r.Spec.ForProvider.Region) },
	wanted: func(r *v1alpha1.Role, current *cloud.Resource) cloud.Properties {
		p, init := r.Spec.ForProvider, r.Spec.InitProvider
		if current == nil {
			return cloud.Properties{Trust: firstSet(p.Trust, init.Trust), Policies: firstNonEmpty(p.Policies, init.Policies)}
		}
		is := current.Properties
		return cloud.Properties{Trust: firstSet(p.Trust, &is.Trust), Policies: firstNonEmpty(p.Policies, is.Policies)}
	},
	atProvider: func(r cloud.Resource) map[string]any {
		return baseAtProvider(r, map[string]any{"trust": r.Properties.Trust, "policies": anySlice(r.Properties.Policies)})
	},
}

var clusters = kind[*v1alpha1.Cluster]{
	typ:      cloud.TypeCluster,
	lateInit: []string{"nodes"},
	scope:    func(c *v1alpha1.Cluster) string { return scope(c.Spec.ForProvider.Region) },
	wanted: func(c *v1alpha1.Cluster, current *cloud.Resource) cloud.Properties {
		p, init := c.Spec.ForProvider, c.Spec.InitProvider
		if current == nil {
			return cloud.Properties{
				Subnets: firstNonEmpty(p.SubnetIDs, init.SubnetIDs), Role: firstSet(p.RoleID, init.RoleID), Nodes: int(firstSet(p.Nodes, init.Nodes)),
			}
		}
		is := current.Properties
		nodes := int64(is.Nodes)
		return cloud.Properties{Subnets: firstNonEmpty(p.SubnetIDs, is.Subnets), Role: firstSet(p.RoleID, &is.Role), Nodes: int(firstSet(p.Nodes, &nodes))}
	},
	atProvider: func(r cloud.Resource) map[string]any {
		is := r.Properties
		return baseAtProvider(r, map[string]any{"subnetIDs": anySlice(is.Subnets), "roleID": is.Role, "nodes": int64(is.Nodes), "endpoint": r.Endpoint})
	},
	connection: func(r cloud.Resource) map[string][]byte {
		if r.Endpoint == "" {
			return nil
		}
		return map[string][]byte{"endpoint": []byte(r.Endpoint), "certificate": []byte(r.Certificate)}
	},
}

// firstNonEmpty returns the first list that is not empty.
func firstNonEmpty(lists ...[]string) []string {
	i := slices.IndexFunc(lists, func(l []string) bool { return len(l) > 0 })
	if i < 0 {
		return nil
	}
	return lists[i]
}

// anySlice returns a list of strings for an unstructured object.
func anySlice(list []string) []any {
	out := make([]any, len(list))
	for i, text := range list {
		out[i] = text
	}
	return out
}
