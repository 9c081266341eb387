package v1alpha1

import (
	"embed"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/sdk/managed"
)

// GroupVersion is the group and version of the AWS provider's own kinds.
var GroupVersion = schema.GroupVersion{Group: "aws.espalier.dev", Version: "v1alpha1"}

// Kinds of configurations.
const (
	ProviderConfigKind        = "ProviderConfig"
	ClusterProviderConfigKind = "ClusterProviderConfig"
)

// CRDs holds the generated CustomResourceDefinitions, one YAML document a file.
//
//go:embed crds/*.yaml
var CRDs embed.FS

// Provider returns the provider without its catalog, which needs AWS's SDK. The permissions of the provider depend on
// nothing else.
func Provider() managed.Provider {
	return managed.Provider{
		Name: "aws",
		CRDs: CRDs,
		Configs: []schema.GroupVersionKind{
			GroupVersion.WithKind(ClusterProviderConfigKind), GroupVersion.WithKind(ProviderConfigKind),
		},
		Activations: GroupVersion.WithKind(ResourceTypeActivationKind),
	}
}
