package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeploymentRuntimeConfig is what packages run with.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories={crossplane}
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type DeploymentRuntimeConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DeploymentRuntimeConfigSpec `json:"spec,omitempty"`
}

// DeploymentRuntimeConfigList is a list of DeploymentRuntimeConfig.
//
// +kubebuilder:object:root=true
type DeploymentRuntimeConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DeploymentRuntimeConfig `json:"items"`
}

// DeploymentRuntimeConfigSpec has a template for each object of a runtime. What it sets goes before the defaults.
type DeploymentRuntimeConfigSpec struct {
	// +optional
	DeploymentTemplate *DeploymentTemplate `json:"deploymentTemplate,omitempty"`
	// +optional
	ServiceTemplate *ServiceTemplate `json:"serviceTemplate,omitempty"`
	// +optional
	ServiceAccountTemplate *ServiceAccountTemplate `json:"serviceAccountTemplate,omitempty"`
}

// DeploymentTemplate is the template of the Deployment.
type DeploymentTemplate struct {
	// +optional
	Metadata *ObjectMeta `json:"metadata,omitempty"`
	// Spec is the spec of the Deployment. The container package-runtime is the package's.
	//
	// +optional
	Spec *appsv1.DeploymentSpec `json:"spec,omitempty"`
}

// ServiceTemplate is the template of the Service.
type ServiceTemplate struct {
	// +optional
	Metadata *ObjectMeta `json:"metadata,omitempty"`
}

// ServiceAccountTemplate is the template of the ServiceAccount.
type ServiceAccountTemplate struct {
	// +optional
	Metadata *ObjectMeta `json:"metadata,omitempty"`
}

// ObjectMeta is the metadata that a template sets.
type ObjectMeta struct {
	// Name replaces the name of the object.
	//
	// +optional
	Name *string `json:"name,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}
