package managed

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Catalog contains the kinds of a provider that are served only where they are activated. A type is what the external
// API calls a kind of its resources, such as AWS::EC2::VPC. It is safe for concurrent use.
type Catalog interface {
	// Match returns the names of the types that a pattern matches, sorted. The error says why the
	// pattern is not valid.
	Match(pattern string) ([]string, error)
	// TypeOf returns the type of a kind, whether it is activated or not.
	TypeOf(kind schema.GroupKind) (name string, clusterScoped, ok bool)
	// Open returns the kind of a type and its CustomResourceDefinition, which the caller may
	// change. The error says why the type cannot be served.
	Open(name string, clusterScoped bool) (Kind, *apiextensionsv1.CustomResourceDefinition, error)
}

// Groups is implemented by catalogs that know the API groups of their kinds. The permissions that
// the provider needs then include all kinds of these groups.
type Groups interface {
	Groups() []string
}
