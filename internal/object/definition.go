package object

import (
	"k8s.io/apimachinery/pkg/types"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Definition names the definition that serves a kind.
type Definition struct {
	Name      string
	Namespace string // empty unless it is a ResourceGroup
	UID       types.UID
	// Dialect is that of the kind.
	Dialect Dialect
}

// Dialect says in whose words an instance and its children tell that they belong
// together. What the engine itself rests on (the ApplySet, the place, the digest of what
// was applied) is on those of all dialects.
type Dialect string

// Dialects.
const (
	// GraphDialect is that of definitions of graphs.
	GraphDialect Dialect = ""
	// CompositeDialect is that of composites, and ClaimDialect that of their claims.
	CompositeDialect Dialect = "composite"
	ClaimDialect     Dialect = "claim"
)

// Finalizer is what the definition's instances carry. It derives from names
// alone, so that a definition that was deleted and recreated finds them again.
func (d Definition) Finalizer() string {
	switch {
	case d.Dialect == CompositeDialect:
		return apiextensions.CompositeFinalizer
	case d.Dialect == ClaimDialect:
		return apiextensions.ClaimFinalizer
	case d.Namespace == "":
		return v1alpha1.Finalizer
	}
	return d.Name + "." + d.Namespace + v1alpha1.FinalizerSuffix
}
