// Package v1alpha1 holds apiextensions.crossplane.io/v1alpha1: the first versions of
// EnvironmentConfig and Usage, which manifests still use. The API server turns one version
// into the other by changing apiVersion alone, so both have the same fields. Two further kinds
// have no other version: ManagedResourceDefinition and ManagedResourceActivationPolicy.
//
// +kubebuilder:object:generate=true
// +groupName=apiextensions.crossplane.io
package v1alpha1
