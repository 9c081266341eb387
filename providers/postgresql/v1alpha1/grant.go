package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Grant grants a role privileges on a database, a schema or objects of a schema, or the
// membership in another role. It owns all privileges of the role on its target: only one
// Grant may exist for a role and a target.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,postgresql},shortName=pggrant
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Grant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GrantSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
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

// GrantSpec is the desired state of a Grant.
type GrantSpec struct {
	resource.Spec `json:",inline"`

	ForProvider GrantParameters `json:"forProvider,omitempty"`
	// InitProvider has values for fields that forProvider leaves unset. They are used
	// at creation only.
	//
	// +optional
	InitProvider GrantParameters `json:"initProvider,omitempty"`
}

// GrantStatus is the observed state of a Grant.
type GrantStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider GrantObservation `json:"atProvider,omitempty"`
}

// GrantObservation is the grant as observed on the server.
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

// GrantParameters are the properties of a grant.
type GrantParameters struct {
	// Role is the role that is granted privileges. It cannot be changed after the
	// creation.
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
	// MemberOf is the role that role becomes a member of. Of the fields below, only
	// withOption may be set with it. It cannot be changed after the creation.
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
	// Database is the target, or the database of the target. It cannot be changed after
	// the creation.
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
	// ObjectType is the type of the target: Database, the default, Schema, or Tables,
	// Sequences or Functions of the schema. It cannot be changed after the creation.
	//
	// +optional
	ObjectType ObjectType `json:"objectType,omitempty"`
	// Schema is the target, or the schema of the target. It cannot be changed after the
	// creation.
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
	// Objects are names of tables, sequences or functions. The default is all of the
	// schema, including those that are created later. A function's name stands for all
	// overloads. A ClusterProviderConfig that does not allow ForeignRoles limits them to
	// those that a role of the namespace owns: names of others are refused, and of all
	// objects, others are left out. The list cannot be changed after the creation.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Objects []string `json:"objects,omitempty"`
	// Privileges are exactly the privileges that the role has. ALL stands for all of
	// the object type.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	Privileges []Privilege `json:"privileges,omitempty"`
	// WithOption is the grant option, or the admin option of a membership.
	//
	// +optional
	WithOption *bool `json:"withOption,omitempty"`
}

// ObjectType is the type of a grant's target.
//
// +kubebuilder:validation:Enum=Database;Schema;Tables;Sequences;Functions
type ObjectType string

// Types of targets.
const (
	OnDatabase  ObjectType = "Database"
	OnSchema    ObjectType = "Schema"
	OnTables    ObjectType = "Tables"
	OnSequences ObjectType = "Sequences"
	OnFunctions ObjectType = "Functions"
)

// Privilege is a privilege in PostgreSQL's words.
//
// +kubebuilder:validation:Enum=ALL;CONNECT;CREATE;TEMPORARY;USAGE;SELECT;INSERT;UPDATE;DELETE;TRUNCATE;REFERENCES;TRIGGER;EXECUTE;MAINTAIN
type Privilege string
