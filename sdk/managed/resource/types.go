package resource

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Spec is what the spec of every managed resource has beside forProvider and
// initProvider. Providers embed it inline.
type Spec struct {
	// ManagementPolicies are the actions that are allowed on the external resource.
	// The default is all; an empty list pauses the resource. Any other list includes
	// Observe or is ["*"]; Delete with Update or LateInitialize also needs Create.
	//
	// +optional
	// +kubebuilder:default={"*"}
	ManagementPolicies Policies `json:"managementPolicies,omitempty"`

	// DeletionPolicy is the older field for what happens to the external resource
	// when this object is deleted. If it contradicts managementPolicies, the one that
	// differs from its default applies.
	//
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// ProviderConfigRef names the provider configuration to use, with the address
	// and credentials of the external API.
	//
	// +optional
	// +kubebuilder:default={"name": "default"}
	ProviderConfigRef *ProviderConfigReference `json:"providerConfigRef,omitempty"`

	// WriteConnectionSecretToRef names a Secret to which the connection details are
	// written.
	//
	// +optional
	WriteConnectionSecretToRef *SecretReference `json:"writeConnectionSecretToRef,omitempty"`
}

// ProviderConfigReference names a provider's configuration.
type ProviderConfigReference struct {
	// Kind is the kind of the provider configuration, such as ProviderConfig or
	// ClusterProviderConfig. Each provider has a default.
	//
	// +optional
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"`
}

// SecretReference names a Secret. That of a namespaced resource is in its own namespace.
type SecretReference struct {
	Name string `json:"name"`
	// Namespace is for cluster-scoped resources.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// Status is what the status of every managed resource has beside atProvider.
// Providers embed it inline.
type Status struct {
	// Conditions are Ready: whether the external resource can be used; and Synced:
	// whether it is as this object specifies.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`

	// ObservedGeneration is the generation of the object that the conditions describe.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// LastHandledReconcileAt is the last value of the annotation
	// crossplane.io/reconcile-requested-at that led to a reconcile.
	//
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
}

// Condition is an observation of one aspect of a managed resource.
type Condition struct {
	Type               string                 `json:"type"`
	Status             metav1.ConditionStatus `json:"status"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime"`
	Reason             string                 `json:"reason"`
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Types of conditions.
const (
	Ready  = "Ready"
	Synced = "Synced"
)

// Reasons of Ready.
const (
	Available   = "Available"
	Unavailable = "Unavailable"
	Creating    = "Creating"
	Deleting    = "Deleting"
)

// Reasons of Synced.
const (
	// ReconcileSuccess: the external resource was observed and is as wanted.
	ReconcileSuccess = "ReconcileSuccess"
	// ReconcileError: the reconcile failed, as the message says, and is retried.
	ReconcileError = "ReconcileError"
	// ReconcilePaused: reconciles are paused by the annotation or by empty policies.
	ReconcilePaused = "ReconcilePaused"
	// OperationInProgress: an operation is open; the status is Unknown until it has ended.
	OperationInProgress = "OperationInProgress"
	// CreateUnresolved: it is unknown whether a creation had an effect, and another one could
	// create a second resource. A person has to set an annotation.
	CreateUnresolved = "CreateUnresolved"
	// NameReserved: the external name is reserved for another object.
	NameReserved = "NameReserved"
	// NameDeleting: the external name belongs to a resource that is being deleted.
	NameDeleting = "NameDeleting"
	// Conflict: the external resource exists and does not belong to the object.
	Conflict = "Conflict"
	// Disagreement: the external API contradicts itself about whether the external resource
	// exists, so it is not created again.
	Disagreement = "Disagreement"
	// Contested: the external API or another client changes back what updates set.
	Contested = "Contested"
	// NotAllowed: the provider configuration does not allow what the object specifies. The
	// external resource is not changed.
	NotAllowed = "NotAllowed"
	// InUse: the object is being deleted, and a Usage protects the external resource.
	InUse = "InUse"
)

// Annotations that users put on managed resources.
const (
	// ExternalNameAnnotation is the identity of the external resource. Set before the object
	// is bound, it names the resource to adopt. After that it shows the bound identity, and
	// is set back if it is changed.
	ExternalNameAnnotation = "crossplane.io/external-name"
	// AllowReferencesAnnotation lists the namespaces, separated by commas, whose managed resources may refer to this
	// one beside those of its own namespace; "*" stands for all.
	AllowReferencesAnnotation = "espalier.dev/allow-references-from"
	// PausedAnnotation pauses reconciles while it is "true".
	PausedAnnotation = "crossplane.io/paused"
	// PollIntervalAnnotation is how often the external resource is observed, as a duration.
	PollIntervalAnnotation = "crossplane.io/poll-interval"
	// ReconcileRequestedAtAnnotation requests a reconcile each time its value changes.
	ReconcileRequestedAtAnnotation = "crossplane.io/reconcile-requested-at"
	// AdoptAnnotation allows the adoption of an existing resource without a mark, if its value
	// is IfUnmarked.
	AdoptAnnotation = "espalier.dev/adopt"
	// RetryAnnotation repeats an unresolved creation each time its value changes. The person
	// who sets it has made sure that the creation had no effect.
	RetryAnnotation = "espalier.dev/retry-create"
)

// AdoptIfUnmarked is the value of AdoptAnnotation that allows adoption.
const AdoptIfUnmarked = "IfUnmarked"

// Finalizer keeps a managed resource until its external resource is deleted or orphaned.
const Finalizer = "finalizer.managedresource.crossplane.io"

// ConfigFinalizer keeps a provider configuration as long as a managed resource refers to it.
const ConfigFinalizer = "in-use.crossplane.io"

// Reference names another managed resource. A field is set to its identity, or to a field of
// it.
type Reference struct {
	Name string `json:"name"`
	// Namespace is that of the other managed resource, by default its own. One in another
	// namespace has to allow it, by the annotation espalier.dev/allow-references-from.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Policy *ReferencePolicy `json:"policy,omitempty"`
}

// Selector selects another managed resource by labels, or by the controller that
// both have.
type Selector struct {
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// +optional
	MatchControllerRef *bool `json:"matchControllerRef,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Policy *ReferencePolicy `json:"policy,omitempty"`
}

// ReferencePolicy configures when a reference is resolved.
type ReferencePolicy struct {
	// Resolve is Always, in each reconcile, or IfNotPresent, the default: only if the
	// field is unset.
	//
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent
	Resolve string `json:"resolve,omitempty"`
	// Resolution is Required, the default, or Optional. While a required reference is
	// not resolved, the external resource is neither created nor updated.
	//
	// +optional
	// +kubebuilder:validation:Enum=Required;Optional
	// +kubebuilder:default=Required
	Resolution string `json:"resolution,omitempty"`
}
