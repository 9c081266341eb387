package v1beta1

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EnvironmentConfigKind is the kind of EnvironmentConfigs.
const EnvironmentConfigKind = "EnvironmentConfig"

// EnvironmentConfig is data for functions of pipelines. Only functions read it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories=crossplane,shortName=envcfg
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type EnvironmentConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Data is any object; only functions interpret it.
	//
	// +optional
	Data map[string]extv1.JSON `json:"data,omitempty"`
}

// EnvironmentConfigList is a list of EnvironmentConfig.
//
// +kubebuilder:object:root=true
type EnvironmentConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EnvironmentConfig `json:"items"`
}
