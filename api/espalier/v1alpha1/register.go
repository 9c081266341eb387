package v1alpha1

import (
	"embed"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of Espalier's own kinds.
var GroupVersion = schema.GroupVersion{Group: "espalier.dev", Version: "v1alpha1"}

// BindingKind is the kind of Bindings.
const BindingKind = "Binding"

// HoldKind is the kind of Holds.
const HoldKind = "Hold"

// RefusedDeletionKind is the kind of RefusedDeletions.
const RefusedDeletionKind = "RefusedDeletion"

// CRDs holds the generated CustomResourceDefinitions of this package's kinds, one
// YAML document a file.
//
//go:embed crds/*.yaml
var CRDs embed.FS
