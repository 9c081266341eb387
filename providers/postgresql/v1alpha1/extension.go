package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Extension is an extension in a database.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,postgresql},shortName=pgextension
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Extension struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ExtensionSpec   `json:"spec"`
	Status ExtensionStatus `json:"status,omitempty"`
}

// ExtensionList is a list of Extension.
//
// +kubebuilder:object:root=true
type ExtensionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Extension `json:"items"`
}

// ExtensionSpec is what a Extension is to be.
type ExtensionSpec struct {
	resource.Spec `json:",inline"`

	ForProvider ExtensionParameters `json:"forProvider,omitempty"`
	// InitProvider is used at creation, for what forProvider doesn't say, and never
	// again.
	//
	// +optional
	InitProvider ExtensionParameters `json:"initProvider,omitempty"`
}

// ExtensionStatus is what a Extension is.
type ExtensionStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider ExtensionObservation `json:"atProvider,omitempty"`
}

// ExtensionObservation is what was seen of an extension.
type ExtensionObservation struct {
	// +optional
	OID int64 `json:"oid,omitempty"`
	// +optional
	Database string `json:"database,omitempty"`
	// +optional
	Version string `json:"version,omitempty"`
	// +optional
	Schema string `json:"schema,omitempty"`
	// +optional
	Comment string `json:"comment,omitempty"`
}

// ExtensionParameters are what can be said of an extension.
type ExtensionParameters struct {
	// Database is the one that it is in. It can't be changed once there is one.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Database *string `json:"database,omitempty"`
	// DatabaseRef names the Database whose name database takes.
	//
	// +optional
	DatabaseRef *resource.Reference `json:"databaseRef,omitempty"`
	// DatabaseSelector selects the Database whose name database takes.
	//
	// +optional
	DatabaseSelector *resource.Selector `json:"databaseSelector,omitempty"`
	// Name is the extension's. Left out, it is that of the annotation
	// crossplane.io/external-name, or that of this object. It can't be changed once
	// there is one.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name *string `json:"name,omitempty"`
	// Version is the one to have; at creation the default one if it is left out.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.+-]{1,63}$`
	Version *string `json:"version,omitempty"`
	// Schema is where its objects are.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Schema *string `json:"schema,omitempty"`
	// SchemaRef names the Schema whose name schema takes.
	//
	// +optional
	SchemaRef *resource.Reference `json:"schemaRef,omitempty"`
	// SchemaSelector selects the Schema whose name schema takes.
	//
	// +optional
	SchemaSelector *resource.Selector `json:"schemaSelector,omitempty"`
	// Cascade makes the extensions with it that it requires.
	//
	// +optional
	Cascade *bool `json:"cascade,omitempty"`
	// OnDelete says what becomes of what uses it when it is deleted: Refuse, the
	// default, leaves it while anything does; Cascade deletes that with it.
	//
	// +optional
	OnDelete Dependents `json:"onDelete,omitempty"`
}
