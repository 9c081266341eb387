package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Grant is what a role may do with a database, with a schema, or with what a schema
// has, or that it is a member of another role. It has all of that for itself: for one
// role and one thing there is one Grant.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,postgresql},shortName=pggrant
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Grant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GrantSpec   `json:"spec"`
	Status GrantStatus `json:"status,omitempty"`
}

// GrantList is a list of Grant.
//
// +kubebuilder:object:root=true
type GrantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Grant `json:"items"`
}

// GrantSpec is what a Grant is to be.
type GrantSpec struct {
	resource.Spec `json:",inline"`

	ForProvider GrantParameters `json:"forProvider,omitempty"`
	// InitProvider is used at creation, for what forProvider doesn't say, and never
	// again.
	//
	// +optional
	InitProvider GrantParameters `json:"initProvider,omitempty"`
}

// GrantStatus is what a Grant is.
type GrantStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider GrantObservation `json:"atProvider,omitempty"`
}

// GrantObservation is what was seen of a grant.
type GrantObservation struct {
	// +optional
	Role string `json:"role,omitempty"`
	// +optional
	ObjectType string `json:"objectType,omitempty"`
	// +optional
	Privileges []string `json:"privileges,omitempty"`
	// +optional
	WithOption bool `json:"withOption,omitempty"`
	// +optional
	Objects int64 `json:"objects,omitempty"`
}

// GrantParameters are what can be said of a grant.
type GrantParameters struct {
	// Role is who is granted something. It can't be changed once there is one.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Role *string `json:"role,omitempty"`
	// RoleRef names the Role whose name role takes.
	//
	// +optional
	RoleRef *resource.Reference `json:"roleRef,omitempty"`
	// RoleSelector selects the Role whose name role takes.
	//
	// +optional
	RoleSelector *resource.Selector `json:"roleSelector,omitempty"`
	// MemberOf is the role that role becomes a member of; it stands for itself,
	// without any of the fields below but withOption. It can't be changed once there
	// is one.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	MemberOf *string `json:"memberOf,omitempty"`
	// MemberOfRef names the Role whose name memberOf takes.
	//
	// +optional
	MemberOfRef *resource.Reference `json:"memberOfRef,omitempty"`
	// MemberOfSelector selects the Role whose name memberOf takes.
	//
	// +optional
	MemberOfSelector *resource.Selector `json:"memberOfSelector,omitempty"`
	// Database is the one that is granted, or that has what is granted. It can't be
	// changed once there is one.
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
	// ObjectType is what is granted: Database, the default, Schema, or Tables, Sequences or
	// Functions of the schema. It can't be changed once there is one.
	//
	// +optional
	ObjectType ObjectType `json:"objectType,omitempty"`
	// Schema is the one that is granted, or that has what is granted. It can't be
	// changed once there is one.
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
	// Objects are the tables, sequences or functions that are meant; left out they are
	// all that the schema has, also those that come later. A function's name means all
	// of the name. It can't be changed once there is one.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Objects []string `json:"objects,omitempty"`
	// Privileges are what the role may do: exactly those. ALL stands for all that
	// there are.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	Privileges []Privilege `json:"privileges,omitempty"`
	// WithOption lets the role grant what it was granted, or make others members.
	//
	// +optional
	WithOption *bool `json:"withOption,omitempty"`
}

// ObjectType is what a grant is about.
//
// +kubebuilder:validation:Enum=Database;Schema;Tables;Sequences;Functions
type ObjectType string

// What a grant can be about.
const (
	OnDatabase  ObjectType = "Database"
	OnSchema    ObjectType = "Schema"
	OnTables    ObjectType = "Tables"
	OnSequences ObjectType = "Sequences"
	OnFunctions ObjectType = "Functions"
)

// Privilege is something that a role may do.
//
// +kubebuilder:validation:Enum=ALL;CONNECT;CREATE;TEMPORARY;USAGE;SELECT;INSERT;UPDATE;DELETE;TRUNCATE;REFERENCES;TRIGGER;EXECUTE;MAINTAIN
type Privilege string
