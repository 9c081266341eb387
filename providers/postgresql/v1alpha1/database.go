package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Database is a database of a PostgreSQL server. Its name is that of the
// annotation crossplane.io/external-name, or its own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,postgresql},shortName=pgdatabase
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DatabaseSpec   `json:"spec"`
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

// DatabaseSpec is what a Database is to be.
type DatabaseSpec struct {
	resource.Spec `json:",inline"`

	ForProvider DatabaseParameters `json:"forProvider,omitempty"`
	// InitProvider is used at creation, for what forProvider doesn't say, and never
	// again.
	//
	// +optional
	InitProvider DatabaseParameters `json:"initProvider,omitempty"`
}

// DatabaseStatus is what a Database is.
type DatabaseStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider DatabaseObservation `json:"atProvider,omitempty"`
}

// DatabaseObservation is what was seen of a database.
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

// DatabaseParameters are what can be said of a database.
type DatabaseParameters struct {
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
	// Encoding is how it holds texts, such as UTF8. It can't be changed once there is
	// one.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]{1,63}$`
	Encoding *string `json:"encoding,omitempty"`
	// LCCollate is how it sorts. It can't be changed once there is one.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LCCollate *string `json:"lcCollate,omitempty"`
	// LCCType is how it tells letters apart. It can't be changed once there is one.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LCCType *string `json:"lcCType,omitempty"`
	// Template is the database that it is copied from; it counts at creation only.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Template *string `json:"template,omitempty"`
	// Tablespace is where it is kept.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Tablespace *string `json:"tablespace,omitempty"`
	// AllowConnections lets anybody connect at all.
	//
	// +optional
	AllowConnections *bool `json:"allowConnections,omitempty"`
	// ConnectionLimit is how many connections it may have at a time; -1 for any
	// number.
	//
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`
	// IsTemplate lets it be copied by whoever may make databases, and keeps it from
	// being deleted.
	//
	// +optional
	IsTemplate *bool `json:"isTemplate,omitempty"`
	// OnDelete says what becomes of sessions in it when it is deleted: Refuse, the
	// default, leaves it while there are any; Force ends them.
	//
	// +optional
	OnDelete DatabaseDeletion `json:"onDelete,omitempty"`
}

// DatabaseDeletion is what becomes of sessions in a database that is deleted.
//
// +kubebuilder:validation:Enum=Refuse;Force
type DatabaseDeletion string

// What becomes of sessions in a database that is deleted.
const (
	DatabaseRefuse DatabaseDeletion = "Refuse"
	DatabaseForce  DatabaseDeletion = "Force"
)
