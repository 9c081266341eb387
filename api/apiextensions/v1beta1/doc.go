// Package v1beta1 holds apiextensions.crossplane.io/v1beta1: EnvironmentConfig, and the
// former home of Usage.
//
// +kubebuilder:object:generate=true
// +groupName=apiextensions.crossplane.io
package v1beta1
