package v1alpha1

import (
	"embed"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the sandbox provider's kinds.
var GroupVersion = schema.GroupVersion{Group: "sandbox.espalier.dev", Version: "v1alpha1"}

// CRDs holds the generated CustomResourceDefinitions, one YAML document a file.
//
//go:embed crds/*.yaml
var CRDs embed.FS
