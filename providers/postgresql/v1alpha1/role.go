package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Role is a role of a PostgreSQL server: a user, if it may log in, or else a group.
// Its name is that of the annotation crossplane.io/external-name, or its own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,postgresql},shortName=pgrole
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Role struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RoleSpec   `json:"spec"`
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

// RoleSpec is what a Role is to be.
type RoleSpec struct {
	resource.Spec `json:",inline"`

	ForProvider RoleParameters `json:"forProvider,omitempty"`
	// InitProvider is used at creation, for what forProvider doesn't say, and never
	// again.
	//
	// +optional
	InitProvider RoleParameters `json:"initProvider,omitempty"`
}

// RoleStatus is what a Role is.
type RoleStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider RoleObservation `json:"atProvider,omitempty"`
}

// RoleObservation is what was seen of a role.
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

// RoleParameters are what can be said of a role.
type RoleParameters struct {
	// Login lets it log in.
	//
	// +optional
	Login *bool `json:"login,omitempty"`
	// Superuser lets it do everything.
	//
	// +optional
	Superuser *bool `json:"superuser,omitempty"`
	// CreateDB lets it make databases.
	//
	// +optional
	CreateDB *bool `json:"createDB,omitempty"`
	// CreateRole lets it make roles.
	//
	// +optional
	CreateRole *bool `json:"createRole,omitempty"`
	// Replication lets it stream.
	//
	// +optional
	Replication *bool `json:"replication,omitempty"`
	// BypassRLS lets it past row security.
	//
	// +optional
	BypassRLS *bool `json:"bypassRLS,omitempty"`
	// Inherit gives it what the roles have that it is a member of.
	//
	// +optional
	Inherit *bool `json:"inherit,omitempty"`
	// ConnectionLimit is how many connections it may have at a time; -1 for any
	// number.
	//
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`
	// ValidUntil is when its password ends.
	//
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
	// MemberOf lists the roles that it is a member of: exactly those, where the list
	// is given. Without it memberships are left alone, and single ones are a Grant.
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
	// Configuration are parameters that its sessions begin with: exactly those, where
	// it is given.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Configuration map[string]string `json:"configuration,omitempty"`
	// PasswordSecretRef names a password of the user's own, in the namespace, by
	// default under the key password. Without it, a role with a connection secret is
	// given a random one.
	//
	// +optional
	PasswordSecretRef *LocalSecretKeyReference `json:"passwordSecretRef,omitempty"`
	// PasswordRotation says when a generated password is replaced.
	//
	// +optional
	PasswordRotation *PasswordRotation `json:"passwordRotation,omitempty"`
	// Database is the one that the connection secret tells to connect to; nothing else
	// follows from it.
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
	// ReassignOwnedTo is the role that is given what this one owns, when this one is
	// deleted; what it was granted is revoked then, in every database. Without it a
	// role that owns something, or was granted something, is not deleted.
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

// PasswordRotation says when a generated password is replaced by another.
type PasswordRotation struct {
	// Every is how old a password may become.
	//
	// +optional
	Every *metav1.Duration `json:"every,omitempty"`
	// Token asks for another password whenever its value is a new one.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Token string `json:"token,omitempty"`
}
