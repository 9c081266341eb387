package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Provider installs kinds of managed resources, and runs their controllers.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories={crossplane,pkg}
// +kubebuilder:printcolumn:name="INSTALLED",type="string",JSONPath=".status.conditions[?(@.type=='Installed')].status"
// +kubebuilder:printcolumn:name="HEALTHY",type="string",JSONPath=".status.conditions[?(@.type=='Healthy')].status"
// +kubebuilder:printcolumn:name="PACKAGE",type="string",JSONPath=".spec.package"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type Provider struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProviderSpec  `json:"spec,omitempty"`
	Status PackageStatus `json:"status,omitempty"`
}

// ProviderList is a list of Provider.
//
// +kubebuilder:object:root=true
type ProviderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Provider `json:"items"`
}

// ProviderSpec is the spec of a provider.
type ProviderSpec struct {
	PackageSpec     `json:",inline"`
	RuntimeSettings `json:",inline"`
}

// ProviderRevision is a version of a provider. The active one runs.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories={crossplane,pkgrev}
// +kubebuilder:printcolumn:name="HEALTHY",type="string",JSONPath=".status.conditions[?(@.type=='RevisionHealthy')].status"
// +kubebuilder:printcolumn:name="RUNTIME",type="string",JSONPath=".status.conditions[?(@.type=='RuntimeHealthy')].status"
// +kubebuilder:printcolumn:name="IMAGE",type="string",JSONPath=".spec.image"
// +kubebuilder:printcolumn:name="STATE",type="string",JSONPath=".spec.desiredState"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="REVISION",type="string",JSONPath=".spec.revision",priority=1
// +kubebuilder:printcolumn:name="DEP-FOUND",type="string",JSONPath=".status.foundDependencies",priority=1
// +kubebuilder:printcolumn:name="DEP-INSTALLED",type="string",JSONPath=".status.installedDependencies",priority=1
type ProviderRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProviderRevisionSpec  `json:"spec,omitempty"`
	Status PackageRevisionStatus `json:"status,omitempty"`
}

// ProviderRevisionList is a list of ProviderRevision.
//
// +kubebuilder:object:root=true
type ProviderRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProviderRevision `json:"items"`
}

// ProviderRevisionSpec is the spec of a revision.
type ProviderRevisionSpec struct {
	PackageRevisionSpec `json:",inline"`
	RuntimeRevisionSpec `json:",inline"`
}
