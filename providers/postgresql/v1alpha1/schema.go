package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Schema is a schema of a database. Its name is that of the annotation
// crossplane.io/external-name, or its own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,postgresql},shortName=pgschema
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Schema struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SchemaSpec   `json:"spec"`
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

// SchemaSpec is what a Schema is to be.
type SchemaSpec struct {
	resource.Spec `json:",inline"`

	ForProvider SchemaParameters `json:"forProvider,omitempty"`
	// InitProvider is used at creation, for what forProvider doesn't say, and never
	// again.
	//
	// +optional
	InitProvider SchemaParameters `json:"initProvider,omitempty"`
}

// SchemaStatus is what a Schema is.
type SchemaStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider SchemaObservation `json:"atProvider,omitempty"`
}

// SchemaObservation is what was seen of a schema.
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

// SchemaParameters are what can be said of a schema.
type SchemaParameters struct {
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
	// Owner is the role that owns it.
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
	// OnDelete says what becomes of what is in it when it is deleted: Refuse, the
	// default, leaves it while there is anything; Cascade deletes that with it.
	//
	// +optional
	OnDelete Dependents `json:"onDelete,omitempty"`
}

// Dependents is what becomes of what stands on something that is deleted.
//
// +kubebuilder:validation:Enum=Refuse;Cascade
type Dependents string

// What becomes of dependents.
const (
	DependentsRefuse  Dependents = "Refuse"
	DependentsCascade Dependents = "Cascade"
)
