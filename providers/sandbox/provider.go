package sandbox

import (
	"context"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Provider serves the kinds of the sandbox over a cloud.
func Provider(c *cloud.Cloud) managed.Provider {
	return managed.Provider{
		Name:  "sandbox",
		CRDs:  v1alpha1.CRDs,
		Kinds: []managed.Kind{serve(c, "Bucket", func() *v1alpha1.Bucket { return &v1alpha1.Bucket{} }, buckets)},
	}
}

func serve[M managed.Object](c *cloud.Cloud, name string, empty func() M, k kind[M]) managed.Kind {
	return managed.For(managed.Definition[M]{
		Kind: v1alpha1.GroupVersion.WithKind(name),
		New:  empty,
		Caps: func() external.Caps { return caps(c, k.typ) },
		Connect: func(context.Context, M) (managed.Client[M], error) {
			return client[M]{k, c}, nil
		},
	})
}
