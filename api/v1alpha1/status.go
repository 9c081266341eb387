package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DefinitionStatus is the status of a definition.
type DefinitionStatus struct {
	// ObservedGeneration is the generation of the definition that the status is of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// State is Active while the kind is served from the current spec.
	State DefinitionState `json:"state,omitempty"`

	// TopologicalOrder lists the nodes in an order in which each comes after those that it
	// reads.
	TopologicalOrder []string `json:"topologicalOrder,omitempty"`

	// Conditions are Ready, the conditions that Ready follows from (GraphRevisionsResolved,
	// GraphAccepted, KindReady and ControllerReady), and PermissionsGranted. While Ready is not
	// True, Reconciling or Stalled is, too.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`

	// Resources lists the nodes that read others.
	Resources []ResourceInformation `json:"resources,omitempty"`

	// LastIssuedRevision is the number of the newest revision.
	LastIssuedRevision int64 `json:"lastIssuedRevision,omitempty"`

	// ServingRevision is the number of the revision that instances are composed with, unless
	// they select another one, or a rollout has updated them.
	ServingRevision int64 `json:"servingRevision,omitempty"`

	// ServiceAccount is the account that the controllers impersonate for instances;
	// without it they use their own permissions.
	ServiceAccount *ServiceAccount `json:"serviceAccount,omitempty"`

	// Rollout is the progress of the latest rollout in waves.
	Rollout *RolloutStatus `json:"rollout,omitempty"`
}

// DefinitionState is the state of a definition.
type DefinitionState string

// States of a definition.
const (
	DefinitionActive   DefinitionState = "Active"
	DefinitionInactive DefinitionState = "Inactive"
)

// ResourceInformation lists what a node reads.
type ResourceInformation struct {
	ID           string       `json:"id,omitempty"`
	Dependencies []Dependency `json:"dependencies,omitempty"`
}

// Dependency names a node that another reads.
type Dependency struct {
	ID string `json:"id,omitempty"`
}

// Condition is an observation of one aspect of an object. Reason and message may be missing in
// a condition that is read; the controllers always write both, possibly empty.
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
	// ObservedGeneration is the generation of the object that was observed.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// InstanceState is the state of an instance.
type InstanceState string

// States of an instance.
const (
	InstanceActive     InstanceState = "ACTIVE"
	InstanceInProgress InstanceState = "IN_PROGRESS"
	// InstanceSuspended is an instance that is not reconciled because its annotation
	// suspends it. It is an addition of Espalier's.
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
	// DefinitionPermissionsGranted is whether all permissions that instances need are
	// granted. Ready does not depend on it: the kind is served all the same, and the
	// instances that need a missing permission report it.
	DefinitionPermissionsGranted = "PermissionsGranted"

	// DefinitionFieldsStored is False while the API server drops fields of definitions or of their revisions, because
	// another program has installed the CustomResourceDefinition. Otherwise there is no such condition.
	DefinitionFieldsStored = "FieldsStored"
)

// ReasonKindNotReady is the reason of the condition Ready of a definition whose revision cannot serve before its kind is
// ready for it, as the condition KindReady says.
const ReasonKindNotReady = "KindNotReady"

// Reasons of the condition Ready of a definition that is being deleted.
const (
	ReasonInstancesRemain = "InstancesRemain"
	// ReasonInstancesUnknown is the reason while it cannot be determined whether instances remain.
	ReasonInstancesUnknown = "InstancesUnknown"
)

// Types of conditions on instances. Reconciling, Stalled, Drifted and OverridesIgnored exist only
// while they are true.
const (
	InstanceReady          = "Ready"
	InstanceManaged        = "InstanceManaged"
	InstanceGraphResolved  = "GraphResolved"
	InstanceResourcesReady = "ResourcesReady"
	InstanceReconciling    = "Reconciling"
	InstanceStalled        = "Stalled"
	InstanceDrifted        = "Drifted"
	// InstanceOverridesIgnored names annotations of the instance that its definition does not
	// allow.
	InstanceOverridesIgnored = "OverridesIgnored"
)
