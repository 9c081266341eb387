package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Graph is a graph of resources that is reconciled by itself: it serves no kind, and is its own only instance.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="REASON",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="MESSAGE",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Graph struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:Required
	Spec GraphSpec `json:"spec"`
	// Status has more fields, such as waiting and deletion, which all instances have.
	//
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	// +kubebuilder:pruning:PreserveUnknownFields
	Status GraphStatus `json:"status,omitempty"`
}

// GraphList is a list of Graph.
//
// +kubebuilder:object:root=true
type GraphList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Graph `json:"items"`
}

// GraphSpec is the nodes of a Graph, and the account that reads and writes their objects.
type GraphSpec struct {
	// Nodes are the nodes of the graph. Their order in the list has no meaning: a node comes after the nodes whose fields it
	// reads.
	//
	// +kubebuilder:validation:MinItems=1
	// +listType=map
	// +listMapKey=id
	Nodes []*GraphNode `json:"nodes"`

	// ServiceAccountName is the service account, in the namespace of the Graph, that the controllers impersonate to read and
	// write objects; "default" if it is empty.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="is not the name of a service account"
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// WaitForReadiness makes each node wait until the nodes that it reads are ready, as in a ResourceGraphDefinition. By
	// default a node waits only for the fields that it reads. It is an addition of Espalier's.
	//
	// +optional
	WaitForReadiness bool `json:"waitForReadiness,omitempty"`

	// Readiness is when a node without readyWhen is ready: Exists, the default, when its object exists; Health by the
	// object's own status, as kstatus computes it. It is an addition of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:Enum=Exists;Health
	Readiness Readiness `json:"readiness,omitempty"`

	// Deletion sets limits for the deletion of the Graph. It is an addition of Espalier's.
	//
	// +optional
	Deletion *Deletion `json:"deletion,omitempty"`

	// AllowSecretOutputs lists outputs that may contain data of Secrets, such as resources.web.metadata.labels. By default a
	// Graph that puts data of a Secret into names or labels is refused. It is an addition of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	AllowSecretOutputs []string `json:"allowSecretOutputs,omitempty"`

	// RevisionHistoryLimit is how many of the newest accepted specs are kept, each in a ControllerRevision; none by default.
	// It is an addition of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// GraphNode is a node of a Graph: exactly one of template, ref, def, patch and graph.
type GraphNode struct {
	// ID names the node in expressions.
	//
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9]*$`
	ID string `json:"id"`

	// Template is an object that belongs to the Graph; its strings may contain ${CEL}.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Template *runtime.RawExtension `json:"template,omitempty"`

	// Ref reads an object, or all that a selector selects, that do not belong to the Graph.
	//
	// +optional
	Ref *ExternalRef `json:"ref,omitempty"`

	// Def is a value, whose strings may contain ${CEL}, that other nodes read by the node's id.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Def *runtime.RawExtension `json:"def,omitempty"`

	// Patch contributes fields to an object that does not belong to the Graph: its status, if the patch has a status, and
	// else other fields. Its strings may contain ${CEL}. The fields are released when the node goes. Other nodes cannot read
	// it.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Patch *runtime.RawExtension `json:"patch,omitempty"`

	// Graph is a graph within the graph: {nodes: [...]}. Its nodes read each other, and those of the graphs around it, by
	// their ids; other nodes read them as fields of this one.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Graph *runtime.RawExtension `json:"graph,omitempty"`

	NodeOptions `json:",inline"`
}

// GraphStatus is the state of a Graph.
type GraphStatus struct {
	// ObservedGeneration is the generation of the Graph that the status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, and what it consists of: Accepted and ResourcesConverged.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`

	// ManagedResources are the objects of the Graph, in the order of their application. A long list is cut; the objects
	// themselves carry labels that name the Graph.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=5000
	// +listType=atomic
	ManagedResources []ManagedResource `json:"managedResources,omitempty"`

	// Contributions are the objects that patches of the Graph have contributed fields to, or are about to: what has to be
	// released.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=5000
	// +listType=atomic
	Contributions []Contribution `json:"contributions,omitempty"`

	// AppliedServiceAccount is the user who wrote to the cluster last, such as system:serviceaccount:apps:default.
	//
	// +optional
	AppliedServiceAccount string `json:"appliedServiceAccount,omitempty"`

	// Revisions are the accepted specs that are kept, from the oldest to the newest.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	Revisions []SpecRevision `json:"revisions,omitempty"`
}

// SpecRevision is an accepted spec of a Graph, which a ControllerRevision contains.
type SpecRevision struct {
	// Revision is the number, from 1.
	Revision int64 `json:"revision"`
	// Digest identifies the spec: a ControllerRevision with another one is not put back.
	Digest string `json:"digest"`
}

// ManagedResource is an object of a Graph.
type ManagedResource struct {
	NodeID     string `json:"nodeID"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// +optional
	UID string `json:"uid,omitempty"`
}

// Contribution is an object with fields of a patch.
type Contribution struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Subresource is status for fields of the status.
	//
	// +optional
	Subresource string `json:"subresource,omitempty"`
	// FieldManager owns the fields.
	FieldManager string `json:"fieldManager"`
}

// GraphFinalizer is on Graphs.
const GraphFinalizer = "kro.run/graph-finalizer"

// Conditions of a Graph besides Ready, and their reasons.
const (
	GraphAccepted           = "Accepted"
	GraphResourcesConverged = "ResourcesConverged"

	GraphCompiled = "Compiled"
	GraphInvalid  = "InvalidGraph"
	GraphApplied  = "Applied"
)
