package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// GraphRevision is what a graph definition was at a time. It never changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
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
	Spec   GraphRevisionSpec   `json:"spec,omitempty"`
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

// GraphRevisionSpec is a definition's content, with its number.
type GraphRevisionSpec struct {
	// Revision counts the revisions of one definition, from 1. A number is never
	// given twice.
	//
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Minimum=1
	Revision int64 `json:"revision"`

	// Snapshot is the definition as it was.
	//
	// +kubebuilder:validation:Required
	Snapshot Snapshot `json:"snapshot"`
}

// Snapshot is a definition as it was.
type Snapshot struct {
	// Name is that of the definition: by it a revision is the definition's, whatever
	// became of the definition in the meantime.
	//
	// +kubebuilder:validation:Required
	Name string `json:"name"`

	// Namespace is that of the definition; empty unless that is a ResourceGroup. It is
	// an addition of Espalier's.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Generation is the definition's when the revision was made.
	//
	// +kubebuilder:validation:Required
	Generation int64 `json:"generation"`

	// Spec is the definition's, without what says how revisions are used.
	//
	// +kubebuilder:validation:Required
	Spec v1alpha1.DefinitionSpec `json:"spec"`
}

// GraphRevisionStatus is what became of a revision.
type GraphRevisionStatus struct {
	// TopologicalOrder lists the nodes so that each comes after those it reads.
	TopologicalOrder []string `json:"topologicalOrder,omitempty"`

	// Conditions are Ready and what it is made of: GraphVerified.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`

	// Resources lists the nodes that read others.
	Resources []v1alpha1.ResourceInformation `json:"resources,omitempty"`
}

// HashLabel tells a revision's content apart from that of others.
const HashLabel = v1alpha1.Prefix + "graph-revision-hash"

// Types of conditions on revisions.
const (
	Ready         = "Ready"
	GraphVerified = "GraphVerified"
)
