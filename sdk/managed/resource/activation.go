package resource

// ActivationSpec is the spec of the kind whose objects activate types of a provider's catalog. A
// type is what the external API calls a kind of its resources, such as AWS::EC2::VPC. Providers
// embed it inline.
type ActivationSpec struct {
	// Types are activated: their kinds are installed and served. Each item is the name of a type, or
	// a pattern that matches several, such as AWS::EC2::*.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=200
	Types []TypePattern `json:"types,omitempty"`

	// OnDemand are the types that definitions activate by naming their kinds: ResourceGraphDefinitions,
	// ResourceGroups and Compositions.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=200
	OnDemand []TypePattern `json:"onDemand,omitempty"`

	// Scopes are the scopes of the kinds. A type can have a namespaced kind and a cluster-scoped one,
	// whose name begins with Cluster.
	//
	// +optional
	// +listType=set
	// +kubebuilder:default={Namespaced}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Scopes []ActivationScope `json:"scopes,omitempty"`

	// MaxKinds limits the kinds: each takes memory of the API server. If types matches more, no
	// further kind is installed. On demand, kinds are installed until the limit is reached.
	//
	// +optional
	// +kubebuilder:default=500
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4000
	MaxKinds int32 `json:"maxKinds,omitempty"`
}

// DefaultMaxKinds is the default of ActivationSpec.MaxKinds.
const DefaultMaxKinds = 500

// TypePattern is the name of a type, or a pattern that matches names: * stands for any text.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=200
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:*]+$`
type TypePattern string

// ActivationScope is the scope of a kind.
//
// +kubebuilder:validation:Enum=Namespaced;Cluster
type ActivationScope string

// Scopes of activated kinds.
const (
	ScopeNamespaced ActivationScope = "Namespaced"
	ScopeCluster    ActivationScope = "Cluster"
)

// ActivationStatus is the status of the kind whose objects activate types. Providers embed it inline.
type ActivationStatus struct {
	// Conditions are Ready: whether all kinds are served.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`

	// ObservedGeneration is the generation of the object that the status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Kinds counts the kinds.
	//
	// +optional
	Kinds ActivatedKinds `json:"kinds,omitempty"`

	// Types are the kinds with their states: those with a message first, and at most 100.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Types []ActivatedType `json:"types,omitempty"`
}

// ActivatedKinds counts kinds.
type ActivatedKinds struct {
	// Activated is how many kinds are activated.
	Activated int32 `json:"activated"`
	// Served is how many of these are served.
	Served int32 `json:"served"`
	// Deactivated is how many kinds are not activated any more and still exist.
	//
	// +optional
	Deactivated int32 `json:"deactivated,omitempty"`
}

// ActivatedType is the state of one kind.
type ActivatedType struct {
	// Type is the name of the type, or a pattern that matches none.
	Type string `json:"type"`
	// Kind is the kind with its group, such as VPC.ec2.aws.espalier.dev.
	//
	// +optional
	Kind string `json:"kind,omitempty"`
	// State is Served, Installing, Forbidden, Failed, Conflict, Unknown, Unsupported, TooMany or Deactivated.
	State ActivationState `json:"state"`
	// Message says why it is not served, or what keeps it from being removed.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// ActivationState is the state of a type or of one of its kinds.
type ActivationState string

// States of activated types.
const (
	// StateServed: the kind is installed, and its objects are reconciled.
	StateServed ActivationState = "Served"
	// StateInstalling: the API server does not serve the kind yet.
	StateInstalling ActivationState = "Installing"
	// StateForbidden: the kind is installed, and the provider may not read its objects.
	StateForbidden ActivationState = "Forbidden"
	// StateFailed: the kind could not be installed or removed, which is retried.
	StateFailed ActivationState = "Failed"
	// StateConflict: another program has installed a CustomResourceDefinition of the name.
	StateConflict ActivationState = "Conflict"
	// StateUnknown: the pattern is not valid, or matches no type.
	StateUnknown ActivationState = "Unknown"
	// StateUnsupported: the type cannot be served.
	StateUnsupported ActivationState = "Unsupported"
	// StateTooMany: the kind is not installed because of maxKinds.
	StateTooMany ActivationState = "TooMany"
	// StateDeactivated: the kind is not activated any more. It is served until it is removed.
	StateDeactivated ActivationState = "Deactivated"
)

// ActivationReason is a reason of Ready of activations.
type ActivationReason string

// Reasons of Ready of activations, beside Conflict and Deleting, which managed resources have too.
const (
	// Active: all kinds are served.
	Active ActivationReason = "Active"
	// Installing: the API server does not serve all kinds yet.
	Installing ActivationReason = "Installing"
	// InstallationFailed: a kind could not be installed or removed, which is retried.
	InstallationFailed ActivationReason = "InstallationFailed"
	// KindForbidden: the provider may not read the objects of a kind.
	KindForbidden ActivationReason = "Forbidden"
	// UnknownType: a pattern is not valid, or matches no type.
	UnknownType ActivationReason = "UnknownType"
	// UnsupportedType: a type cannot be served.
	UnsupportedType ActivationReason = "UnsupportedType"
	// TooManyKinds: there are more kinds than maxKinds.
	TooManyKinds ActivationReason = "TooManyKinds"
	// DefinitionsUnreadable: which kinds definitions name cannot be determined.
	DefinitionsUnreadable ActivationReason = "DefinitionsUnreadable"
)

// CatalogLabel is on the CustomResourceDefinitions of activated kinds. Its value is the provider's
// name. ActivationAnnotation names the activation that a kind belongs to.
const (
	CatalogLabel         = "espalier.dev/catalog"
	ActivationAnnotation = "espalier.dev/activation"
)

// ActivationFinalizer keeps an activation until its kinds are removed.
const ActivationFinalizer = "espalier.dev/activation"
