package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Role is a role of a PostgreSQL server: a user, if it may log in, or else a group.
// Its name on the server is that of the annotation crossplane.io/external-name, or else
// metadata.name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,postgresql},shortName=pgrole
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Role struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RoleSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status RoleStatus `json:"status,omitempty"`
}

// RoleList is a list of Role.
//
// +kubebuilder:object:root=true
type RoleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Role `json:"items"`
}

// RoleSpec is the desired state of a Role.
type RoleSpec struct {
	resource.Spec `json:",inline"`

	ForProvider RoleParameters `json:"forProvider,omitempty"`
	// InitProvider has values for fields that forProvider leaves unset. They are used
	// at creation only.
	//
	// +optional
	InitProvider RoleParameters `json:"initProvider,omitempty"`
}

// RoleStatus is the observed state of a Role.
type RoleStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider RoleObservation `json:"atProvider,omitempty"`
}

// RoleObservation is the role as observed on the server.
type RoleObservation struct {
	// +optional
	OID int64 `json:"oid,omitempty"`
	// +optional
	Login bool `json:"login,omitempty"`
	// +optional
	Superuser bool `json:"superuser,omitempty"`
	// +optional
	CreateDB bool `json:"createDB,omitempty"`
	// +optional
	CreateRole bool `json:"createRole,omitempty"`
	// +optional
	Replication bool `json:"replication,omitempty"`
	// +optional
	BypassRLS bool `json:"bypassRLS,omitempty"`
	// +optional
	Inherit bool `json:"inherit,omitempty"`
	// +optional
	ConnectionLimit int64 `json:"connectionLimit,omitempty"`
	// +optional
	ValidUntil string `json:"validUntil,omitempty"`
	// +optional
	MemberOf []string `json:"memberOf,omitempty"`
	// +optional
	Configuration map[string]string `json:"configuration,omitempty"`
	// +optional
	Comment string `json:"comment,omitempty"`
	// +optional
	PasswordSetAt string `json:"passwordSetAt,omitempty"`
}

// RoleParameters are the properties of a role.
type RoleParameters struct {
	// Login allows the role to log in.
	//
	// +optional
	Login *bool `json:"login,omitempty"`
	// Superuser bypasses all permission checks.
	//
	// +optional
	Superuser *bool `json:"superuser,omitempty"`
	// CreateDB allows the role to create databases.
	//
	// +optional
	CreateDB *bool `json:"createDB,omitempty"`
	// CreateRole allows the role to create roles.
	//
	// +optional
	CreateRole *bool `json:"createRole,omitempty"`
	// Replication allows streaming replication.
	//
	// +optional
	Replication *bool `json:"replication,omitempty"`
	// BypassRLS bypasses row-level security.
	//
	// +optional
	BypassRLS *bool `json:"bypassRLS,omitempty"`
	// Inherit gives the role the privileges of the roles that it is a member of.
	//
	// +optional
	Inherit *bool `json:"inherit,omitempty"`
	// ConnectionLimit limits concurrent connections; -1 for no limit.
	//
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`
	// ValidUntil is when the password expires.
	//
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
	// MemberOf lists exactly the roles that the role is a member of. If it is unset,
	// memberships are not changed; a Grant adds a single one.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	MemberOf []string `json:"memberOf,omitempty"`
	// MemberOfRefs name the Roles whose names memberOf takes.
	//
	// +optional
	MemberOfRefs []resource.Reference `json:"memberOfRefs,omitempty"`
	// MemberOfSelector selects the Roles whose names memberOf takes.
	//
	// +optional
	MemberOfSelector *resource.Selector `json:"memberOfSelector,omitempty"`
	// Configuration are exactly the parameters that are set for sessions of the role. If
	// it is unset, they are not changed.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Configuration map[string]string `json:"configuration,omitempty"`
	// PasswordSecretRef names a Secret of the namespace with the password, by default
	// under the key password. Without it, a role with a connection secret gets a random
	// password.
	//
	// +optional
	PasswordSecretRef *LocalSecretKeyReference `json:"passwordSecretRef,omitempty"`
	// PasswordRotation configures when a generated password is replaced.
	//
	// +optional
	PasswordRotation *PasswordRotation `json:"passwordRotation,omitempty"`
	// Database is the database in the connection secret. It has no other effect.
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
	// ReassignOwnedTo is the role that becomes the owner of this role's objects at
	// deletion; all privileges of this role are revoked then, in every database. Without
	// it, a role that owns objects or has privileges is not deleted.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ReassignOwnedTo *string `json:"reassignOwnedTo,omitempty"`
	// ReassignOwnedToRef names the Role whose name reassignOwnedTo takes.
	//
	// +optional
	ReassignOwnedToRef *resource.Reference `json:"reassignOwnedToRef,omitempty"`
	// ReassignOwnedToSelector selects the Role whose name reassignOwnedTo takes.
	//
	// +optional
	ReassignOwnedToSelector *resource.Selector `json:"reassignOwnedToSelector,omitempty"`
}

// LocalSecretKeyReference names a key of a Secret in the same namespace.
type LocalSecretKeyReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// PasswordRotation configures when a generated password is replaced.
type PasswordRotation struct {
	// Every is the maximum age of a password, at least a minute. It is compared when the
	// role is observed.
	//
	// +optional
	Every *metav1.Duration `json:"every,omitempty"`
	// Token requests a new password each time its value changes.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Token string `json:"token,omitempty"`
}
