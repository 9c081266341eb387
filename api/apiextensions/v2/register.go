package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package's kind.
var GroupVersion = schema.GroupVersion{Group: "apiextensions.crossplane.io", Version: "v2"}

// AddToScheme makes the kind known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &CompositeResourceDefinition{}, &CompositeResourceDefinitionList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
