// Package base has what the kinds of all resource types have in common. Its CustomResourceDefinition is the
// template of theirs: package crd adds the properties of a type to it.
//
// +kubebuilder:object:generate=false
// +groupName=aws.espalier.dev
// +versionName=v1alpha1
package base

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 crd:generateEmbeddedObjectMeta=false,maxDescLen=600 paths=. output:crd:dir=.

// Resource is an AWS resource.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories={crossplane,managed,aws}
// +kubebuilder:printcolumn:name="SYNCED",type="string",JSONPath=".status.conditions[?(@.type==\"Synced\")].status"
// +kubebuilder:printcolumn:name="READY",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type="string",JSONPath=".metadata.annotations.crossplane\\.io/external-name"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type Resource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec Spec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status Status `json:"status,omitempty"`
}

// Spec is the desired state of a resource.
type Spec struct {
	resource.Spec `json:",inline"`

	ForProvider Parameters `json:"forProvider"`
	// InitProvider has values for properties that forProvider leaves unset. They are used at creation only.
	//
	// +optional
	InitProvider Parameters `json:"initProvider,omitempty"`
}

// Parameters are the siblings of properties.
type Parameters struct {
	// +optional
	Ref *resource.Reference `json:"ref,omitempty"`
	// +optional
	Selector *resource.Selector `json:"selector,omitempty"`
	// +optional
	SecretRef *SecretKey `json:"secretRef,omitempty"`
	// +optional
	ClusterSecretRef *ClusterSecretKey `json:"clusterSecretRef,omitempty"`
}

// SecretKey names a key of a Secret in the namespace of the resource.
type SecretKey struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`
}

// ClusterSecretKey names a key of a Secret.
type ClusterSecretKey struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
}

// Status is the observed state of a resource.
type Status struct {
	resource.Status `json:",inline"`

	// AtProvider are the properties of the resource as AWS returned them last.
	//
	// +optional
	AtProvider Observation `json:"atProvider,omitempty"`
}

// Observation are properties.
type Observation struct{}
