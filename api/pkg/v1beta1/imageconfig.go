package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
)

// ImageConfig says how the images of packages are fetched, verified and run.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories={crossplane}
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type ImageConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ImageConfigSpec `json:"spec,omitempty"`
}

// ImageConfigList is a list of ImageConfig.
//
// +kubebuilder:object:root=true
type ImageConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ImageConfig `json:"items"`
}

// ImageConfigSpec is the images that an ImageConfig is about, and a part for each purpose.
type ImageConfigSpec struct {
	// MatchImages are the images that it is about. For each purpose, the configuration with the longest prefix is used.
	//
	// +kubebuilder:validation:MinItems=1
	MatchImages []ImageMatch `json:"matchImages"`

	// Registry is how the registry is used.
	//
	// +optional
	Registry *RegistryConfig `json:"registry,omitempty"`

	// Verification is how signatures are verified.
	//
	// +optional
	Verification *ImageVerification `json:"verification,omitempty"`

	// RewriteImage is where the image is fetched from instead.
	//
	// +optional
	RewriteImage *ImageRewrite `json:"rewriteImage,omitempty"`

	// Runtime is what the image runs with.
	//
	// +optional
	Runtime *ImageRuntime `json:"runtime,omitempty"`
}

// ImageMatch matches images.
type ImageMatch struct {
	// Type is how they are matched: Prefix.
	//
	// +optional
	// +kubebuilder:validation:Enum=Prefix
	// +kubebuilder:default=Prefix
	Type MatchType `json:"type,omitempty"`

	// Prefix is how the reference of the image begins.
	Prefix string `json:"prefix"`
}

// MatchType is how images are matched.
type MatchType string

// MatchPrefix matches images by the beginning of their references.
const MatchPrefix MatchType = "Prefix"

// RegistryConfig is how a registry is used.
type RegistryConfig struct {
	// +optional
	Authentication *RegistryAuthentication `json:"authentication,omitempty"`
}

// RegistryAuthentication is how a registry is authenticated to.
type RegistryAuthentication struct {
	// PullSecretRef names a Secret of the type kubernetes.io/dockerconfigjson.
	PullSecretRef corev1.LocalObjectReference `json:"pullSecretRef"`
}

// ImageRewrite is where an image is fetched from instead.
type ImageRewrite struct {
	// Prefix replaces the prefix that matched.
	Prefix string `json:"prefix"`
}

// ImageRuntime is what an image runs with.
type ImageRuntime struct {
	// +optional
	ConfigRef *v1.RuntimeConfigReference `json:"configRef,omitempty"`
}

// ImageVerification is how signatures are verified.
type ImageVerification struct {
	// Provider is the kind of signatures: Cosign.
	//
	// +kubebuilder:validation:Enum=Cosign
	Provider string `json:"provider"`

	// +optional
	Cosign *CosignVerification `json:"cosign,omitempty"`
}

// CosignVerification verifies signatures of cosign.
type CosignVerification struct {
	// Authorities are who may have signed. One is enough.
	Authorities []CosignAuthority `json:"authorities"`
}

// CosignAuthority is who may have signed an image.
type CosignAuthority struct {
	Name string `json:"name"`

	// +optional
	Key *CosignKey `json:"key,omitempty"`

	// +optional
	Keyless *CosignKeyless `json:"keyless,omitempty"`

	// Attestations are verified instead of signatures. One is enough.
	//
	// +optional
	Attestations []CosignAttestation `json:"attestations,omitempty"`
}

// CosignKey is a public key.
type CosignKey struct {
	// SecretRef names the Secret with the key in PEM.
	SecretRef SecretKeyRef `json:"secretRef"`

	// +kubebuilder:default=sha256
	HashAlgorithm string `json:"hashAlgorithm"`
}

// SecretKeyRef names a key of a Secret.
type SecretKeyRef struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// CosignKeyless is an identity that a certificate is issued for.
type CosignKeyless struct {
	Identities []CosignIdentity `json:"identities"`

	// InsecureIgnoreSCT accepts a certificate that is in no transparency log.
	//
	// +optional
	InsecureIgnoreSCT *bool `json:"insecureIgnoreSCT,omitempty"`
}

// CosignIdentity is an issuer and a subject, as texts or as regular expressions.
type CosignIdentity struct {
	Issuer        string `json:"issuer,omitempty"`
	Subject       string `json:"subject,omitempty"`
	IssuerRegExp  string `json:"issuerRegExp,omitempty"`
	SubjectRegExp string `json:"subjectRegExp,omitempty"`
}

// CosignAttestation is a statement about an image.
type CosignAttestation struct {
	Name          string `json:"name"`
	PredicateType string `json:"predicateType"`
}
