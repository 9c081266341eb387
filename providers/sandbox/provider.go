package sandbox

import (
	"context"

	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Provider returns the provider of a sandbox cloud.
func Provider(c Cloud) managed.Provider {
	return managed.Provider{
		Name: "sandbox",
		CRDs: v1alpha1.CRDs,
		Kinds: []managed.Kind{
			serve(c, "Bucket", func() *v1alpha1.Bucket { return &v1alpha1.Bucket{} }, buckets),
			serve(c, "Network", func() *v1alpha1.Network { return &v1alpha1.Network{} }, networks),
			serve(c, "Subnet", func() *v1alpha1.Subnet { return &v1alpha1.Subnet{} }, subnets,
				managed.Reference{Field: "networkID", To: v1alpha1.GroupVersion.WithKind("Network")}),
			serve(c, "Role", func() *v1alpha1.Role { return &v1alpha1.Role{} }, roles),
			serve(c, "Cluster", func() *v1alpha1.Cluster { return &v1alpha1.Cluster{} }, clusters,
				managed.Reference{Field: "subnetIDs", Ref: "subnetIDRefs", Selector: "subnetIDSelector", List: true, To: v1alpha1.GroupVersion.WithKind("Subnet")},
				managed.Reference{Field: "roleID", To: v1alpha1.GroupVersion.WithKind("Role")}),
		},
	}
}

func serve[M managed.Object](c Cloud, name string, empty func() M, k kind[M], references ...managed.Reference) managed.Kind {
	return managed.For(managed.Definition[M]{
		Kind:       v1alpha1.GroupVersion.WithKind(name),
		New:        empty,
		References: references,
		Caps:       func() external.Caps { return caps(c, k.typ) },
		Connect: func(context.Context, managed.Objects, M) (managed.Client[M], error) {
			return &client[M]{kind: k, cloud: c}, nil
		},
	})
}
