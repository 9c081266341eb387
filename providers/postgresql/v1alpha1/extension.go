package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Extension is an extension in a database.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,postgresql},shortName=pgextension
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Extension struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ExtensionSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
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

// ExtensionSpec is the desired state of an Extension.
type ExtensionSpec struct {
	resource.Spec `json:",inline"`

	ForProvider ExtensionParameters `json:"forProvider,omitempty"`
	// InitProvider has values for fields that forProvider leaves unset. They are used
	// at creation only.
	//
	// +optional
	InitProvider ExtensionParameters `json:"initProvider,omitempty"`
}

// ExtensionStatus is the observed state of an Extension.
type ExtensionStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider ExtensionObservation `json:"atProvider,omitempty"`
}

// ExtensionObservation is the extension as observed on the server.
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

// ExtensionParameters are the properties of an extension.
type ExtensionParameters struct {
	// Database is the database of the extension. It cannot be changed after the creation.
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
	// Name is the name of the extension. The default is that of the annotation
	// crossplane.io/external-name, or else metadata.name. It cannot be changed after
	// the creation.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name *string `json:"name,omitempty"`
	// Version is the version. If unset, the server's default is used at creation.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.+-]{1,63}$`
	Version *string `json:"version,omitempty"`
	// Schema is the schema of the extension's objects.
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
	// Cascade also creates the extensions that it requires, at creation.
	//
	// +optional
	Cascade *bool `json:"cascade,omitempty"`
	// OnDelete decides about dependent objects at deletion: with Refuse, the default,
	// the extension is not deleted while there are any; Cascade deletes them with it.
	//
	// +optional
	OnDelete Dependents `json:"onDelete,omitempty"`
}
