package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: "apiextensions.crossplane.io", Version: "v1alpha1"}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Usage{}, &UsageList{}, &EnvironmentConfig{}, &EnvironmentConfigList{},
		&ManagedResourceDefinition{}, &ManagedResourceDefinitionList{}, &ManagedResourceActivationPolicy{}, &ManagedResourceActivationPolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
