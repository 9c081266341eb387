package sandbox

import (
	"cmp"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

// buckets says what is special about buckets.
var buckets = kind[*v1alpha1.Bucket]{
	typ:    cloud.TypeBucket,
	chosen: []string{"versioning", "public"},
	scope:  func(b *v1alpha1.Bucket) string { return scope(b.Spec.ForProvider.Region) },
	wanted: func(b *v1alpha1.Bucket, there *cloud.Resource) cloud.Properties {
		p, init := b.Spec.ForProvider, b.Spec.InitProvider
		if there == nil {
			return cloud.Properties{Versioning: said(p.Versioning, init.Versioning), Public: said(p.Public, init.Public)}
		}
		is := there.Properties
		return cloud.Properties{Versioning: said(p.Versioning, &is.Versioning), Public: said(p.Public, &is.Public)}
	},
	show: func(r cloud.Resource) map[string]any {
		return shown(r, map[string]any{"url": r.URL, "versioning": r.Properties.Versioning, "public": r.Properties.Public})
	},
}

// said is the first that says something, or else the zero value.
func said[T any](values ...*T) T {
	var zero T
	for _, v := range values {
		if v != nil {
			return *v
		}
	}
	return zero
}

// mainRegion is where things are that don't say where they are to be.
const mainRegion = "main"

func scope(region string) string { return cmp.Or(region, mainRegion) }
