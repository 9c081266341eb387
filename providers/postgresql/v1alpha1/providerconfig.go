package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProviderConfig says how to reach a PostgreSQL server, and as whom, for the
// managed resources of its namespace that name it with kind ProviderConfig.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
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

// ClusterProviderConfig says how to reach a PostgreSQL server, and as whom, for the
// managed resources of all namespaces. It is what providerConfigRef means when it
// gives no kind.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories={crossplane,provider,postgresql}
// +kubebuilder:printcolumn:name="HOST",type=string,JSONPath=`.spec.host`
// +kubebuilder:printcolumn:name="TLS",type=string,JSONPath=`.spec.tls.mode`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterProviderConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProviderConfigSpec   `json:"spec"`
	Status ProviderConfigStatus `json:"status,omitempty"`
}

// ClusterProviderConfigList is a list of ClusterProviderConfig.
//
// +kubebuilder:object:root=true
type ClusterProviderConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterProviderConfig `json:"items"`
}

// ProviderConfigSpec is how to reach a server, and as whom.
type ProviderConfigSpec struct {
	// Host is the server's name or address, or the directory of its socket. Left
	// out, it is the key "endpoint" of the credentials' Secret.
	//
	// What is managed is known by host and port: two ClusterProviderConfigs with the
	// same ones are the same server, as are two ProviderConfigs of one namespace; one
	// server under two names, or of two namespaces, is taken for two. A ProviderConfig's
	// server can't be on the machine on which Espalier runs, unless that was allowed.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_./:-]*$`
	Host string `json:"host,omitempty"`
	// Port is the server's; left out, it is the key "port" of the credentials'
	// Secret, or else 5432.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// Database is the one to connect to for what belongs to no database.
	//
	// +optional
	// +kubebuilder:default=postgres
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Database string `json:"database,omitempty"`

	Credentials Credentials `json:"credentials"`
	// TLS is how the connection is kept from others; by default the server has to
	// prove its name.
	//
	// +optional
	// +kubebuilder:default={"mode": "verify-full"}
	TLS TLS `json:"tls,omitempty"`

	// MaxConnections bounds how many connections are open at a time.
	//
	// +optional
	// +kubebuilder:default=4
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxConnections int32 `json:"maxConnections,omitempty"`
	// StatementTimeout is how long a statement may take on the server. The creation
	// of a database from a large template may need more.
	//
	// +optional
	// +kubebuilder:default="1m"
	StatementTimeout *metav1.Duration `json:"statementTimeout,omitempty"`
}

// Credentials are as whom to connect.
type Credentials struct {
	// SecretRef names a Secret with the keys "username" and "password"; without a
	// password the server has to be content with the user's name or with a client
	// certificate. A connection secret of a database server fits as it is.
	SecretRef SecretReference `json:"secretRef"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace is for a ClusterProviderConfig, which needs it; a ProviderConfig's
	// Secrets are in its own namespace.
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

// TLSMode is what is asked of the connection.
//
// +kubebuilder:validation:Enum=disable;require;verify-ca;verify-full
type TLSMode string

// Modes of TLS, in the words of PostgreSQL.
const (
	// TLSDisable sends everything in the clear: for a socket, for loopback, or where
	// the network itself encrypts.
	TLSDisable TLSMode = "disable"
	// TLSRequire encrypts, and doesn't ask to whom.
	TLSRequire TLSMode = "require"
	// TLSVerifyCA asks for a certificate of the CA.
	TLSVerifyCA TLSMode = "verify-ca"
	// TLSVerifyFull asks for a certificate of the CA for the server's name.
	TLSVerifyFull TLSMode = "verify-full"
)

// TLS is how the connection is kept from others.
type TLS struct {
	// +optional
	// +kubebuilder:default=verify-full
	Mode TLSMode `json:"mode,omitempty"`
	// CASecretRef names the certificates of the authorities that the server's is to
	// be of, as PEM, by default under the key ca.crt; without it they are the
	// system's.
	//
	// +optional
	CASecretRef *SecretKeyReference `json:"caSecretRef,omitempty"`
	// ClientCertificateSecretRef names a Secret of type kubernetes.io/tls whose
	// certificate is shown to the server.
	//
	// +optional
	ClientCertificateSecretRef *SecretReference `json:"clientCertificateSecretRef,omitempty"`
	// ServerName is the name that verify-full asks for, if it isn't the host.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`
}

// ProviderConfigStatus says what keeps a configuration that is being deleted.
type ProviderConfigStatus struct {
	// Users is how many managed resources name it.
	//
	// +optional
	Users int64 `json:"users,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}
