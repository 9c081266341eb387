package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProviderConfig is the address of a PostgreSQL server and the credentials for it, for
// managed resources of its namespace that refer to it with kind ProviderConfig.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,provider,postgresql}
// +kubebuilder:printcolumn:name="HOST",type=string,JSONPath=`.spec.host`
// +kubebuilder:printcolumn:name="TLS",type=string,JSONPath=`.spec.tls.mode`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ProviderConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProviderConfigSpec   `json:"spec"`
	Status ProviderConfigStatus `json:"status,omitempty"`
}

// ProviderConfigList is a list of ProviderConfig.
//
// +kubebuilder:object:root=true
type ProviderConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProviderConfig `json:"items"`
}

// ClusterProviderConfig is the address of a PostgreSQL server and the credentials for
// it, for managed resources of all namespaces, or of those that it allows. A
// providerConfigRef without a kind refers to one.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories={crossplane,provider,postgresql}
// +kubebuilder:printcolumn:name="HOST",type=string,JSONPath=`.spec.host`
// +kubebuilder:printcolumn:name="TLS",type=string,JSONPath=`.spec.tls.mode`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterProviderConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterProviderConfigSpec `json:"spec"`
	Status ProviderConfigStatus      `json:"status,omitempty"`
}

// ClusterProviderConfigList is a list of ClusterProviderConfig.
//
// +kubebuilder:object:root=true
type ClusterProviderConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterProviderConfig `json:"items"`
}

// ClusterProviderConfigSpec is the address of a server and the credentials for it, and what
// the namespaces that share it may do with it.
type ClusterProviderConfigSpec struct {
	ProviderConfigSpec `json:",inline"`

	// AllowedNamespaces are the namespaces whose managed resources may use the
	// configuration. Without it, all may; if it is empty, none.
	//
	// +optional
	AllowedNamespaces *AllowedNamespaces `json:"allowedNamespaces,omitempty"`
	// Allow lists what managed resources may do beside managing roles, databases and what
	// is in them for their own namespace. "*" allows everything that the user of the
	// configuration may do.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Allow []Allowance `json:"allow,omitempty"`
}

// AllowedNamespaces are namespaces that are named or selected.
type AllowedNamespaces struct {
	// Names are names of namespaces.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Names []string `json:"names,omitempty"`
	// Selector selects namespaces by their labels; an empty one selects all.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// Allowance is something that a shared configuration refuses unless it is allowed.
//
// +kubebuilder:validation:Enum=Superuser;CreateRole;CreateDB;Replication;BypassRLS;ForeignRoles;ForeignDatabases;SystemSchemas;SuperuserParameters;UntrustedExtensions;Tablespaces;*
type Allowance string

// Allowances.
const (
	// AllowEverything stands for all others.
	AllowEverything Allowance = "*"
	// AllowSuperuser and the next four are attributes of a Role.
	AllowSuperuser   Allowance = "Superuser"
	AllowCreateRole  Allowance = "CreateRole"
	AllowCreateDB    Allowance = "CreateDB"
	AllowReplication Allowance = "Replication"
	AllowBypassRLS   Allowance = "BypassRLS"
	// AllowForeignRoles is the use of a role that no Role of the namespace manages: its
	// adoption, membership in it, making it an owner, granting it privileges, and granting
	// privileges on tables, sequences and functions that it owns.
	AllowForeignRoles Allowance = "ForeignRoles"
	// AllowForeignDatabases is the use of a database that no Database of the namespace
	// manages: its adoption, copying it, and managing schemas, extensions and privileges.
	AllowForeignDatabases Allowance = "ForeignDatabases"
	// AllowSystemSchemas is the use of information_schema and of schemas that begin with pg_.
	AllowSystemSchemas Allowance = "SystemSchemas"
	// AllowSuperuserParameters is setting or resetting a parameter of a role that a user may
	// not set for a session.
	AllowSuperuserParameters Allowance = "SuperuserParameters"
	// AllowUntrustedExtensions is an extension that only a superuser may create.
	AllowUntrustedExtensions Allowance = "UntrustedExtensions"
	// AllowTablespaces is a tablespace other than pg_default.
	AllowTablespaces Allowance = "Tablespaces"
)

// ProviderConfigSpec is the address of a server and the credentials for it.
type ProviderConfigSpec struct {
	// Host is the server's name or address, or the directory of its socket. The default
	// is the key "endpoint" of the credentials' Secret.
	//
	// Host and port identify the server: two ClusterProviderConfigs with the same host
	// and port are the same server, and so are two ProviderConfigs of one namespace. One
	// server with two names, or configured in two namespaces, counts as two. The server of
	// a ProviderConfig cannot be on the machine on which Espalier runs, unless the
	// operator allows that.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_./:-]*$`
	Host string `json:"host,omitempty"`
	// Port is the server's port. The default is the key "port" of the credentials'
	// Secret, or else 5432.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// Database is the database to connect to for objects of the whole server, such as
	// roles.
	//
	// +optional
	// +kubebuilder:default=postgres
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Database string `json:"database,omitempty"`

	Credentials Credentials `json:"credentials"`
	// TLS configures encryption. By default, the server's certificate and name are
	// verified.
	//
	// +optional
	// +kubebuilder:default={"mode": "verify-full"}
	TLS TLS `json:"tls,omitempty"`

	// MaxConnections limits how many connections are open at a time.
	//
	// +optional
	// +kubebuilder:default=4
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxConnections int32 `json:"maxConnections,omitempty"`
	// StatementTimeout limits a statement on the server. The creation of a database
	// from a large template may need more than the default.
	//
	// +optional
	// +kubebuilder:default="1m"
	StatementTimeout *metav1.Duration `json:"statementTimeout,omitempty"`
}

// Credentials are the user name and password to connect with.
type Credentials struct {
	// SecretRef names a Secret with the keys "username" and "password". Without a
	// password, the server has to accept the user name alone or a client certificate.
	// The connection secret of a database server has these keys.
	SecretRef SecretReference `json:"secretRef"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace is required in a ClusterProviderConfig. Secrets of a ProviderConfig
	// are in its own namespace.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// SecretKeyReference names a key of a Secret.
type SecretKeyReference struct {
	SecretReference `json:",inline"`
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// TLSMode is the sslmode of PostgreSQL's clients.
//
// +kubebuilder:validation:Enum=disable;require;verify-ca;verify-full
type TLSMode string

// Modes of TLS.
const (
	// TLSDisable does not encrypt: for a socket, loopback, or a network that encrypts.
	TLSDisable TLSMode = "disable"
	// TLSRequire encrypts, and verifies no certificate.
	TLSRequire TLSMode = "require"
	// TLSVerifyCA also verifies that the CA has signed the certificate.
	TLSVerifyCA TLSMode = "verify-ca"
	// TLSVerifyFull also verifies the server's name.
	TLSVerifyFull TLSMode = "verify-full"
)

// TLS configures the encryption of connections.
type TLS struct {
	// +optional
	// +kubebuilder:default=verify-full
	Mode TLSMode `json:"mode,omitempty"`
	// CASecretRef names the CA certificates for the server's certificate, as PEM, by
	// default under the key ca.crt. Without it, the system's are used.
	//
	// +optional
	CASecretRef *SecretKeyReference `json:"caSecretRef,omitempty"`
	// ClientCertificateSecretRef names a Secret of type kubernetes.io/tls with the
	// client certificate.
	//
	// +optional
	ClientCertificateSecretRef *SecretReference `json:"clientCertificateSecretRef,omitempty"`
	// ServerName is the name that verify-full verifies. The default is the host.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`
}

// ProviderConfigStatus reports what blocks the deletion of a configuration.
type ProviderConfigStatus struct {
	// Users counts the managed resources that refer to the configuration.
	//
	// +optional
	Users int64 `json:"users,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}
