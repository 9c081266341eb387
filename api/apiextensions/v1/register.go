package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: "apiextensions.crossplane.io", Version: "v1"}

// Kinds of this package.
const (
	DefinitionKind          = "CompositeResourceDefinition"
	CompositionKind         = "Composition"
	CompositionRevisionKind = "CompositionRevision"
)

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&CompositeResourceDefinition{}, &CompositeResourceDefinitionList{},
		&Composition{}, &CompositionList{},
		&CompositionRevision{}, &CompositionRevisionList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
