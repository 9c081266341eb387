package sandbox

import (
	"cmp"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

// buckets is the kind Bucket.
var buckets = kind[*v1alpha1.Bucket]{
	typ:      cloud.TypeBucket,
	lateInit: []string{"versioning", "public"},
	scope:    func(b *v1alpha1.Bucket) string { return scope(b.Spec.ForProvider.Region) },
	wanted: func(b *v1alpha1.Bucket, current *cloud.Resource) cloud.Properties {
		p, init := b.Spec.ForProvider, b.Spec.InitProvider
		if current == nil {
			return cloud.Properties{Versioning: firstSet(p.Versioning, init.Versioning), Public: firstSet(p.Public, init.Public)}
		}
		is := current.Properties
		return cloud.Properties{Versioning: firstSet(p.Versioning, &is.Versioning), Public: firstSet(p.Public, &is.Public)}
	},
	atProvider: func(r cloud.Resource) map[string]any {
		return baseAtProvider(r, map[string]any{"url": r.URL, "versioning": r.Properties.Versioning, "public": r.Properties.Public})
	},
}

// firstSet returns the first value that is set, or else the zero value.
func firstSet[T any](values ...*T) T {
	var zero T
	for _, v := range values {
		if v != nil {
			return *v
		}
	}
	return zero
}

// mainRegion is the default region.
const mainRegion = "main"

func scope(region string) string { return cmp.Or(region, mainRegion) }
