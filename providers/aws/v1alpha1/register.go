package v1alpha1

import (
	"embed"

	"k8s.io/apimachinery/pkg/runtime/schema"
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
