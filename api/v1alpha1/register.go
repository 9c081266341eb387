package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the dialect's group and version.
var GroupVersion = schema.GroupVersion{Group: "kro.run", Version: "v1alpha1"}

// Kinds of this package.
const (
	ResourceGraphDefinitionKind = "ResourceGraphDefinition"
	ResourceGroupKind           = "ResourceGroup"
	GraphKind                   = "Graph"
)

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ResourceGraphDefinition{}, &ResourceGraphDefinitionList{},
		&ResourceGroup{}, &ResourceGroupList{},
		&Graph{}, &GraphList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
