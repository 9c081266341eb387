package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProviderConfig is the region and the credentials of an AWS account, for managed resources of its namespace
// that refer to it with kind ProviderConfig.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,provider,aws}
// +kubebuilder:printcolumn:name="REGION",type=string,JSONPath=`.spec.region`
// +kubebuilder:printcolumn:name="CREDENTIALS",type=string,JSONPath=`.spec.credentials.source`
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

// ClusterProviderConfig is the region and the credentials of an AWS account, for cluster-scoped managed
// resources, and for those of all namespaces or of those that it allows. A providerConfigRef without a kind
// refers to one. Whoever may write ClusterProviderConfigs can use the identity of the provider's pod.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories={crossplane,provider,aws}
// +kubebuilder:printcolumn:name="REGION",type=string,JSONPath=`.spec.region`
// +kubebuilder:printcolumn:name="CREDENTIALS",type=string,JSONPath=`.spec.credentials.source`
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

// ClusterProviderConfigSpec is a region with credentials, and what the namespaces that share them may do
// with them.
type ClusterProviderConfigSpec struct {
	ProviderConfigSpec `json:",inline"`

	// AllowedNamespaces are the namespaces whose managed resources may use the configuration. Without it,
	// all may; if it is empty, none.
	//
	// +optional
	AllowedNamespaces *AllowedNamespaces `json:"allowedNamespaces,omitempty"`
	// AllowedTypes are the resource types that managed resources of namespaces may have, such as
	// AWS::S3::Bucket, or AWS::EC2::* for all of a service. Without it, all are allowed. Types of IAM let
	// a namespace grant itself all permissions that the credentials may grant.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9]+::([A-Za-z0-9]+::)?([A-Za-z0-9]+|\*)$`
	AllowedTypes []string `json:"allowedTypes,omitempty"`
	// Allow lists what managed resources of namespaces may do beside managing what they have created.
	// "*" allows everything that the credentials may do.
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
// +kubebuilder:validation:Enum=ForeignResources;*
type Allowance string

// Allowances.
const (
	// AllowEverything stands for all others.
	AllowEverything Allowance = "*"
	// AllowForeignResources is the adoption and observation of a resource that no managed resource of the
	// namespace has created.
	AllowForeignResources Allowance = "ForeignResources"
)

// ProviderConfigSpec is a region with the credentials of an AWS account.
//
// +kubebuilder:validation:XValidation:rule="!has(self.assumeRole) || (self.assumeRole.size() == 1 && self.credentials.source in ['Default', 'Profile', 'Secret']) || self.assumeRole.all(r, !has(r.durationSeconds) || r.durationSeconds <= 3600)",message="assumeRole: the session of a role that another role assumes ends after 3600 seconds: reduce durationSeconds"
type ProviderConfigSpec struct {
	// Region is the region whose resources are managed, such as eu-central-1. Those of global services,
	// such as AWS::IAM::Role, can be managed from any region of their partition.
	//
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z]{2,8}(-[a-z]{2,12})+-[0-9]{1,2}$`
	Region string `json:"region"`
	// Credentials are the credentials of the account.
	Credentials Credentials `json:"credentials"`
	// AssumeRole are roles that are assumed one after the other, the first with the credentials. Requests
	// are made with the last.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	AssumeRole []AssumeRole `json:"assumeRole,omitempty"`
	// RoleARN is a role that the Cloud Control API assumes for its handlers. Without it, they use the
	// credentials of the request. The credentials need the permission iam:PassRole for it, and the role has
	// to trust cloudformation.amazonaws.com.
	//
	// +optional
	RoleARN RoleARN `json:"roleARN,omitempty"`
	// Endpoint replaces AWS's endpoints, for VPC endpoints and test clouds.
	//
	// +optional
	Endpoint *Endpoint `json:"endpoint,omitempty"`
}

// RoleARN is the ARN of an IAM role.
//
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:Pattern=`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]+$`
type RoleARN string

// CredentialsSource is where credentials come from.
//
// +kubebuilder:validation:Enum=Default;Profile;Secret;WebIdentity;PodIdentity
type CredentialsSource string

// Sources of credentials. All but CredentialsSecret are identities of the provider's process: a
// ProviderConfig may use them only if the operator allows that.
const (
	// CredentialsDefault is the default chain of AWS's SDKs: environment variables, the shared
	// configuration files, web identity, containers and EC2 instances.
	CredentialsDefault CredentialsSource = "Default"
	// CredentialsProfile is a profile of the shared configuration files.
	CredentialsProfile CredentialsSource = "Profile"
	// CredentialsSecret is an access key in a Secret.
	CredentialsSecret CredentialsSource = "Secret"
	// CredentialsWebIdentity is a role that is assumed with a token of the pod's service account.
	CredentialsWebIdentity CredentialsSource = "WebIdentity"
	// CredentialsPodIdentity is the EKS Pod Identity of the pod.
	CredentialsPodIdentity CredentialsSource = "PodIdentity"
)

// Credentials are the credentials of an account.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) == (self.source == 'Secret')",message="secretRef is required for the source Secret, and only allowed there"
// +kubebuilder:validation:XValidation:rule="has(self.profile) == (self.source == 'Profile')",message="profile is required for the source Profile, and only allowed there"
// +kubebuilder:validation:XValidation:rule="!has(self.webIdentity) || self.source == 'WebIdentity'",message="webIdentity is only allowed for the source WebIdentity"
type Credentials struct {
	// Source is where the credentials come from. Default is the default chain of AWS's SDKs, Profile a
	// profile of the shared configuration files, Secret an access key in a Secret, WebIdentity a role for
	// the pod's service account (IRSA), and PodIdentity EKS Pod Identity. A ProviderConfig has to use
	// Secret, unless the operator allows others.
	Source CredentialsSource `json:"source"`
	// SecretRef names a Secret with the keys "accessKeyId" and "secretAccessKey", and "sessionToken" for
	// temporary credentials; the names of AWS's environment variables are accepted too. A change of the
	// Secret is used with the next request.
	//
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
	// Profile is the name of a profile.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Profile string `json:"profile,omitempty"`
	// WebIdentity says which role to assume, and with which token. Without it, the pod's annotated service
	// account says so, by the environment variables AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE.
	//
	// +optional
	WebIdentity *WebIdentity `json:"webIdentity,omitempty"`
}

// WebIdentity is a role that is assumed with a token.
type WebIdentity struct {
	// RoleARN is the role. The default is the environment variable AWS_ROLE_ARN.
	//
	// +optional
	RoleARN RoleARN `json:"roleARN,omitempty"`
	// TokenFile is the file with the token, such as that of a projected volume. It is that of the
	// environment variable AWS_WEB_IDENTITY_TOKEN_FILE, which is the default, or is in
	// /var/run/secrets/eks.amazonaws.com/serviceaccount.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^\x00]*$`
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(s, s == '..')",message="the path must not contain .."
	TokenFile string `json:"tokenFile,omitempty"`
	// SessionName is the name of the session.
	//
	// +optional
	SessionName SessionName `json:"sessionName,omitempty"`
}

// SessionName names the session of a role. The default is espalier.
//
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+=,.@-]+$`
type SessionName string

// AssumeRole is a role that is assumed.
type AssumeRole struct {
	RoleARN RoleARN `json:"roleARN"`
	// ExternalID is the external id that the role's trust policy requires.
	//
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=1224
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+=,.@:/-]+$`
	ExternalID string `json:"externalID,omitempty"`
	// SessionName is the name of the session, which CloudTrail records.
	//
	// +optional
	SessionName SessionName `json:"sessionName,omitempty"`
	// SessionTags are tags of the session, for conditions of policies on aws:PrincipalTag.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() >= 1 && k.size() <= 128 && self[k].size() <= 256)",message="the key of a tag has 1 to 128 characters, and its value at most 256"
	SessionTags map[string]string `json:"sessionTags,omitempty"`
	// DurationSeconds is how long the session is valid; it is renewed before it ends.
	//
	// +optional
	// +kubebuilder:validation:Minimum=900
	// +kubebuilder:validation:Maximum=43200
	DurationSeconds int32 `json:"durationSeconds,omitempty"`
}

// EndpointURL is the address of a service.
//
// +kubebuilder:validation:MinLength=8
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule="isURL(self) && (url(self).getScheme() == 'https' || (url(self).getScheme() == 'http' && url(self).getHostname() in ['localhost', '127.0.0.1', '::1', '[::1]']))",message="must be a URL with https. http is for test clouds at localhost, 127.0.0.1 or [::1], if the operator allows it"
// +kubebuilder:validation:XValidation:rule="!self.contains('@') && !self.contains('?') && !self.contains('#')",message="must have no user, query or fragment"
type EndpointURL string

// Endpoint is where services are, instead of at AWS's endpoints.
type Endpoint struct {
	// URL is the address of all services that Services does not name.
	//
	// +optional
	URL EndpointURL `json:"url,omitempty"`
	// Services are the addresses of single services.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Services []ServiceEndpoint `json:"services,omitempty"`
	// CASecretRef names CA certificates for the endpoints, as PEM, by default under the key ca.crt, which
	// are trusted beside the system's.
	//
	// +optional
	CASecretRef *SecretKeyReference `json:"caSecretRef,omitempty"`
}

// ServiceEndpoint is where a service is.
type ServiceEndpoint struct {
	// Name is the service as in the section "services" of AWS's configuration files, such as cloudcontrol,
	// sts, ec2, iam or s3.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-z0-9_]+$`
	Name string      `json:"name"`
	URL  EndpointURL `json:"url"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace is required in a ClusterProviderConfig. Secrets of a ProviderConfig are in its own
	// namespace.
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

// ProviderConfigStatus reports what blocks the deletion of a configuration.
type ProviderConfigStatus struct {
	// Users counts the managed resources that refer to the configuration.
	//
	// +optional
	Users int64 `json:"users,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}
