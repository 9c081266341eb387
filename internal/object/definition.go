package object

import (
	"k8s.io/apimachinery/pkg/types"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Definition names the definition that serves a kind. A Graph, which is its own, has only a namespace.
type Definition struct {
	Name      string
	Namespace string // empty unless it is a ResourceGroup
	UID       types.UID
	// Dialect is the dialect of the kind.
	Dialect Dialect
}

// IsGraph reports whether the instance is a Graph.
func (d Definition) IsGraph() bool {
	return d.Dialect == GraphDialect && d.Name == "" && d.Namespace != ""
}

// Dialect says which labels, annotations and finalizers tie an instance and its children
// together. The engine's own (the ApplySet, the place, the digest of the last applied
// configuration) are used in all dialects.
type Dialect string

// Dialects.
const (
	// GraphDialect is the dialect of ResourceGraphDefinitions and ResourceGroups.
	GraphDialect Dialect = ""
	// CompositeDialect is the dialect of composites, and ClaimDialect of their claims.
	CompositeDialect Dialect = "composite"
	ClaimDialect     Dialect = "claim"
)

// Finalizer is the finalizer of the definition's instances. It depends on names alone, so a definition that was deleted
// and recreated recognizes it.
func (d Definition) Finalizer() string {
	switch {
	case d.Dialect == CompositeDialect:
		return apiextensions.CompositeFinalizer
	case d.Dialect == ClaimDialect:
		return apiextensions.ClaimFinalizer
	case d.IsGraph():
		return v1alpha1.GraphFinalizer
	case d.Namespace == "":
		return v1alpha1.Finalizer
	}
	return d.Name + "." + d.Namespace + v1alpha1.FinalizerSuffix
}
