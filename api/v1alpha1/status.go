package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DefinitionStatus is what became of a definition.
type DefinitionStatus struct {
	// State is Active while the kind is served from the current spec.
	State DefinitionState `json:"state,omitempty"`

	// TopologicalOrder lists the nodes so that each comes after those it reads.
	TopologicalOrder []string `json:"topologicalOrder,omitempty"`

	// Conditions are Ready and what it is made of: GraphRevisionsResolved,
	// GraphAccepted, KindReady and ControllerReady.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`

	// Resources lists the nodes that read others.
	Resources []ResourceInformation `json:"resources,omitempty"`

	// LastIssuedRevision is the number of the newest revision.
	LastIssuedRevision int64 `json:"lastIssuedRevision,omitempty"`

	// ServingRevision is the number of the revision that instances are composed by,
	// unless they ask for another, or one that is being rolled out has reached them.
	ServingRevision int64 `json:"servingRevision,omitempty"`

	// ServiceAccount is the account that the controllers impersonate for instances;
	// without it they use their own rights.
	ServiceAccount *ServiceAccount `json:"serviceAccount,omitempty"`

	// Rollout is how far the latest rollout in waves has come.
	Rollout *RolloutStatus `json:"rollout,omitempty"`
}

// DefinitionState is the state of a definition in a word.
type DefinitionState string

// States of a definition.
const (
	DefinitionActive   DefinitionState = "Active"
	DefinitionInactive DefinitionState = "Inactive"
)

// ResourceInformation tells what a node reads.
type ResourceInformation struct {
	ID           string       `json:"id,omitempty"`
	Dependencies []Dependency `json:"dependencies,omitempty"`
}

// Dependency names a node that another reads.
type Dependency struct {
	ID string `json:"id,omitempty"`
}

// Condition is an observation of one aspect of an object. Who reads it has to expect it
// without a reason or a message; what the engine writes has both, if need be empty.
type Condition struct {
	Type   string                 `json:"type"`
	Status metav1.ConditionStatus `json:"status"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// LastTransitionTime is when Status last changed.
	//
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// ObservedGeneration is the generation of the object that was looked at.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// InstanceState is the state of an instance in a word.
type InstanceState string

// States of an instance.
const (
	InstanceActive     InstanceState = "ACTIVE"
	InstanceInProgress InstanceState = "IN_PROGRESS"
	// InstanceSuspended is an instance that nothing is done about because somebody has
	// asked for that. It is an addition of Espalier's.
	InstanceSuspended InstanceState = "SUSPENDED"
	InstanceDeleting  InstanceState = "DELETING"
	InstanceError     InstanceState = "ERROR"
)

// Types of conditions on definitions.
const (
	DefinitionReady             = "Ready"
	DefinitionRevisionsResolved = "GraphRevisionsResolved"
	DefinitionGraphAccepted     = "GraphAccepted"
	DefinitionKindReady         = "KindReady"
	DefinitionControllerReady   = "ControllerReady"
	// DefinitionPermissionsGranted says whether all is allowed that instances are looked
	// after with. Ready doesn't depend on it: the kind is served all the same, and what is
	// forbidden is told by the instances that need it.
	DefinitionPermissionsGranted = "PermissionsGranted"
)

// Types of conditions on instances. Stalled and Drifted are there only while they are
// true.
const (
	InstanceReady          = "Ready"
	InstanceManaged        = "InstanceManaged"
	InstanceGraphResolved  = "GraphResolved"
	InstanceResourcesReady = "ResourcesReady"
	InstanceStalled        = "Stalled"
	InstanceDrifted        = "Drifted"
)
