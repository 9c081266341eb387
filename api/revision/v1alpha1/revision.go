package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// HashLabel contains a digest of the snapshot's spec.
const HashLabel = v1alpha1.Prefix + "graph-revision-hash"

// Types of conditions on revisions.
const (
	Ready         = "Ready"
	GraphVerified = "GraphVerified"
)

// GraphRevision is an immutable snapshot of a ResourceGraphDefinition or ResourceGroup. Only
// the controllers write it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=3"
// +kubebuilder:resource:scope=Cluster,shortName=gr
// +kubebuilder:selectablefield:JSONPath=`.spec.snapshot.name`
// +kubebuilder:printcolumn:name="RGD",type=string,JSONPath=`.spec.snapshot.name`
// +kubebuilder:printcolumn:name="NAMESPACE",type=string,priority=1,JSONPath=`.spec.snapshot.namespace`
// +kubebuilder:printcolumn:name="REVISION",type=integer,JSONPath=`.spec.revision`
// +kubebuilder:printcolumn:name="HASH",type=string,priority=1,JSONPath=`.metadata.labels.kro\.run/graph-revision-hash`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type GraphRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable"
	Spec GraphRevisionSpec `json:"spec,omitempty"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status GraphRevisionStatus `json:"status,omitempty"`
}

// GraphRevisionList is a list of GraphRevision.
//
// +kubebuilder:object:root=true
type GraphRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GraphRevision `json:"items"`
}

// GraphRevisionSpec is a snapshot of a definition with the number of the revision.
type GraphRevisionSpec struct {
	// Revision is the number of the revision among those of one definition, from 1. No
	// number is used twice.
	//
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Minimum=1
	Revision int64 `json:"revision"`

	// Snapshot is the definition as it was when the revision was created.
	//
	// +kubebuilder:validation:Required
	Snapshot Snapshot `json:"snapshot"`

	// Account is the user that reconciles the instances of this revision: the service account
	// that the definition named when the revision was created, or "controllers" if it named
	// none. Another account makes another revision, so that no content is reconciled with
	// permissions that it was not written for. Revisions of earlier releases have no account;
	// that of the definition applies to them. kro does not have this field.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Account string `json:"account,omitempty"`
}

// ControllersAccount is the account of revisions that the controllers reconcile with their own
// permissions.
const ControllersAccount = "controllers"

// Snapshot is a definition as it was at one generation.
type Snapshot struct {
	// Name is the name of the definition. The revision belongs to the definition of this name,
	// also after the definition is deleted and created again.
	//
	// +kubebuilder:validation:Required
	Name string `json:"name"`

	// Namespace is the namespace of the definition; empty unless it is a ResourceGroup. kro
	// does not have this field.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Generation is the generation of the definition.
	//
	// +kubebuilder:validation:Required
	Generation int64 `json:"generation"`

	// Spec is the spec of the definition without the fields that select and roll out
	// revisions.
	//
	// +kubebuilder:validation:Required
	Spec v1alpha1.DefinitionSpec `json:"spec"`
}

// GraphRevisionStatus is the status of a revision.
type GraphRevisionStatus struct {
	// ObservedGeneration is the generation of the revision that the status is of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// TopologicalOrder lists the ids of the nodes, each after those of the nodes that it
	// depends on.
	TopologicalOrder []string `json:"topologicalOrder,omitempty"`

	// Conditions has the types GraphVerified and Ready, which is derived from GraphVerified, and
	// Stalled if the graph is invalid.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`

	// Resources lists the nodes that depend on others, each with its dependencies.
	Resources []v1alpha1.ResourceInformation `json:"resources,omitempty"`
}
