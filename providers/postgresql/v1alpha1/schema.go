package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Schema is a schema of a database. Its name on the server is that of the annotation
// crossplane.io/external-name, or else metadata.name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,postgresql},shortName=pgschema
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Schema struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SchemaSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status SchemaStatus `json:"status,omitempty"`
}

// SchemaList is a list of Schema.
//
// +kubebuilder:object:root=true
type SchemaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Schema `json:"items"`
}

// SchemaSpec is the desired state of a Schema.
type SchemaSpec struct {
	resource.Spec `json:",inline"`

	ForProvider SchemaParameters `json:"forProvider,omitempty"`
	// InitProvider has values for fields that forProvider leaves unset. They are used
	// at creation only.
	//
	// +optional
	InitProvider SchemaParameters `json:"initProvider,omitempty"`
}

// SchemaStatus is the observed state of a Schema.
type SchemaStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider SchemaObservation `json:"atProvider,omitempty"`
}

// SchemaObservation is the schema as observed on the server.
type SchemaObservation struct {
	// +optional
	OID int64 `json:"oid,omitempty"`
	// +optional
	Database string `json:"database,omitempty"`
	// +optional
	Owner string `json:"owner,omitempty"`
	// +optional
	Comment string `json:"comment,omitempty"`
}

// SchemaParameters are the properties of a schema.
type SchemaParameters struct {
	// Database is the database of the schema. It cannot be changed after the creation.
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
	// Owner is the role that owns the schema.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Owner *string `json:"owner,omitempty"`
	// OwnerRef names the Role whose name owner takes.
	//
	// +optional
	OwnerRef *resource.Reference `json:"ownerRef,omitempty"`
	// OwnerSelector selects the Role whose name owner takes.
	//
	// +optional
	OwnerSelector *resource.Selector `json:"ownerSelector,omitempty"`
	// OnDelete decides about objects in the schema at deletion: with Refuse, the
	// default, the schema is not deleted while there are any; Cascade deletes them with
	// it.
	//
	// +optional
	OnDelete Dependents `json:"onDelete,omitempty"`
}

// Dependents decides about objects that depend on one that is deleted.
//
// +kubebuilder:validation:Enum=Refuse;Cascade
type Dependents string

// Values of Dependents.
const (
	DependentsRefuse  Dependents = "Refuse"
	DependentsCascade Dependents = "Cascade"
)
