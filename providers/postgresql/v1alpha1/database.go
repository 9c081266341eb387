package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Database is a database of a PostgreSQL server. Its name on the server is that of
// the annotation crossplane.io/external-name, or else metadata.name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,postgresql},shortName=pgdatabase
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DatabaseSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status DatabaseStatus `json:"status,omitempty"`
}

// DatabaseList is a list of Database.
//
// +kubebuilder:object:root=true
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Database `json:"items"`
}

// DatabaseSpec is the desired state of a Database.
type DatabaseSpec struct {
	resource.Spec `json:",inline"`

	ForProvider DatabaseParameters `json:"forProvider,omitempty"`
	// InitProvider has values for fields that forProvider leaves unset. They are used
	// at creation only.
	//
	// +optional
	InitProvider DatabaseParameters `json:"initProvider,omitempty"`
}

// DatabaseStatus is the observed state of a Database.
type DatabaseStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider DatabaseObservation `json:"atProvider,omitempty"`
}

// DatabaseObservation is the database as observed on the server.
type DatabaseObservation struct {
	// +optional
	OID int64 `json:"oid,omitempty"`
	// +optional
	Owner string `json:"owner,omitempty"`
	// +optional
	Encoding string `json:"encoding,omitempty"`
	// +optional
	LCCollate string `json:"lcCollate,omitempty"`
	// +optional
	LCCType string `json:"lcCType,omitempty"`
	// +optional
	Tablespace string `json:"tablespace,omitempty"`
	// +optional
	AllowConnections bool `json:"allowConnections,omitempty"`
	// +optional
	ConnectionLimit int64 `json:"connectionLimit,omitempty"`
	// +optional
	IsTemplate bool `json:"isTemplate,omitempty"`
	// +optional
	Comment string `json:"comment,omitempty"`
}

// DatabaseParameters are the properties of a database.
type DatabaseParameters struct {
	// Owner is the role that owns the database.
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
	// Encoding is the character set, such as UTF8. It cannot be changed after the
	// creation.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]{1,63}$`
	Encoding *string `json:"encoding,omitempty"`
	// LCCollate is the collation order. It cannot be changed after the creation.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LCCollate *string `json:"lcCollate,omitempty"`
	// LCCType is the character classification. It cannot be changed after the creation.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LCCType *string `json:"lcCType,omitempty"`
	// Template is the database that is copied. It is used at creation only.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Template *string `json:"template,omitempty"`
	// Tablespace is the default tablespace of the database.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Tablespace *string `json:"tablespace,omitempty"`
	// AllowConnections allows connections to the database.
	//
	// +optional
	AllowConnections *bool `json:"allowConnections,omitempty"`
	// ConnectionLimit limits concurrent connections; -1 for no limit.
	//
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`
	// IsTemplate lets every role with CREATEDB copy the database. The server does not
	// delete a template: set it to false for that, also during the deletion.
	//
	// +optional
	IsTemplate *bool `json:"isTemplate,omitempty"`
	// OnDelete decides about open sessions at deletion: with Refuse, the default, the
	// database is not deleted while there are any; Force terminates them.
	//
	// +optional
	OnDelete DatabaseDeletion `json:"onDelete,omitempty"`
}

// DatabaseDeletion decides about open sessions in a database that is deleted.
//
// +kubebuilder:validation:Enum=Refuse;Force
type DatabaseDeletion string

// Values of DatabaseDeletion.
const (
	DatabaseRefuse DatabaseDeletion = "Refuse"
	DatabaseForce  DatabaseDeletion = "Force"
)
