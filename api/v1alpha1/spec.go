package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DefinitionSpec is a kind and the graph behind it.
type DefinitionSpec struct {
	// Schema is the kind that is served: its names and its fields.
	//
	// +kubebuilder:validation:Required
	Schema *Schema `json:"schema,omitempty"`

	// Resources are the nodes of the graph. Their order in the list has no meaning: a node
	// comes after the nodes whose fields it reads.
	//
	// +optional
	Resources []*Resource `json:"resources,omitempty"`

	// Readiness is when a node without readyWhen is ready: Exists, the default, when its
	// object exists; Health by the object's own status, as kstatus computes it. A nested
	// instance is always ready when its Ready condition is true for its current generation.
	//
	// +optional
	// +kubebuilder:validation:Enum=Exists;Health
	Readiness Readiness `json:"readiness,omitempty"`

	// OwnerReferences is the owner of an instance's children: Instance, the default, where
	// Kubernetes allows it, so that tools show them below the instance; or None. It is an
	// addition of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:Enum=Instance;None
	OwnerReferences OwnerReferences `json:"ownerReferences,omitempty"`

	// Inventory is where the objects of an instance are found: Labels, the default, on the objects alone; with
	// Status also in status.managedResources of the instance, up to 1000. It is an addition of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:Enum=Labels;Status
	Inventory Inventory `json:"inventory,omitempty"`

	// Propagate passes labels and annotations of an instance to all its children. It is an
	// addition of Espalier's.
	//
	// +optional
	Propagate *Propagation `json:"propagate,omitempty"`

	// Deletion sets limits for the deletion of instances. It is an addition of
	// Espalier's.
	//
	// +optional
	Deletion *Deletion `json:"deletion,omitempty"`

	// InstanceOverrides says which annotations of an instance take precedence over this
	// definition. It applies to all instances at once, whatever revision they are composed
	// with. It is an addition of Espalier's.
	//
	// +optional
	InstanceOverrides *InstanceOverrides `json:"instanceOverrides,omitempty"`

	// ServiceAccount is the account that the controllers impersonate to read and
	// write the children of instances. By default a definition in a namespace uses the
	// service account "espalier" of its namespace, and a cluster-scoped one the controllers'
	// own permissions. It is an addition of Espalier's.
	//
	// +optional
	ServiceAccount *ServiceAccount `json:"serviceAccount,omitempty"`

	// AllowSecretOutputs lists outputs that may contain data of Secrets, each with everything
	// below it: fields of the status of instances, such as status.password, and names and labels
	// of resources, such as resources.web.metadata.labels. By default a definition that puts
	// data of a Secret into an output is refused. It is an addition of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	AllowSecretOutputs []string `json:"allowSecretOutputs,omitempty"`

	// Revision is the number of the revision that instances are composed with; by default
	// the newest. It is an addition of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Revision *int64 `json:"revision,omitempty"`

	// RevisionHistoryLimit is how many of the newest revisions are kept; 5 by default. Older
	// ones are kept while they are in use. It is an addition of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// Rollout updates instances to a new revision wave by wave; by default all at once. It is
	// an addition of Espalier's.
	//
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`
}

// Propagation lists labels and annotations that children get from their instance, with its values.
// Keys of engines and of kubectl never pass.
type Propagation struct {
	// Labels are keys of labels: each is a key, a prefix with all its keys, such as
	// example.com/*, or * for all. A key that a template sets itself has the template's value.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +listType=set
	Labels []string `json:"labels,omitempty"`

	// Annotations are keys of annotations, in the same form.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +listType=set
	Annotations []string `json:"annotations,omitempty"`
}

// Inventory is where the objects of an instance are found.
type Inventory string

// The inventories.
const (
	InventoryLabels Inventory = "Labels"
	InventoryStatus Inventory = "Status"
)

// Readiness is a rule for nodes that have no readyWhen.
type Readiness string

// Rules of readiness.
const (
	ReadinessExists Readiness = "Exists"
	ReadinessHealth Readiness = "Health"
)

// Schema is the kind that a definition serves.
//
// +kubebuilder:validation:XValidation:rule="self.apiVersion == oldSelf.apiVersion || (has(self.versions) && self.versions.exists(v, v.name == oldSelf.apiVersion))",message="apiVersion may only change while the version that it was is listed in versions, since instances are stored in it",fieldPath=".apiVersion"
// +kubebuilder:validation:XValidation:rule="has(self.plural) == has(oldSelf.plural) && (!has(self.plural) || self.plural == oldSelf.plural)",message="plural is immutable",fieldPath=".plural"
type Schema struct {
	// Kind is the kind's name in UpperCamelCase. It is immutable.
	//
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Pattern=`^[A-Z][a-zA-Z0-9]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="kind is immutable"
	Kind string `json:"kind,omitempty"`

	// APIVersion is the name of the version, such as v1alpha1, in which the graph is written
	// and instances are stored. It may be changed only while the old version is listed in
	// versions.
	//
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^v[0-9]+(alpha[0-9]+|beta[0-9]+)?$`
	APIVersion string `json:"apiVersion,omitempty"`

	// Group is the API group of the kind. It is immutable.
	//
	// +optional
	// +kubebuilder:default="kro.run"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="group is immutable"
	Group string `json:"group,omitempty"`

	// Plural is the kind's name in URLs and roles, and the first part of the name of its
	// CustomResourceDefinition; by default the plural of the kind in English. It is
	// immutable.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Plural string `json:"plural,omitempty"`

	// Scope is Namespaced or Cluster. It is immutable.
	//
	// +optional
	// +kubebuilder:default="Namespaced"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="scope is immutable"
	Scope ResourceScope `json:"scope,omitempty"`

	// Spec holds the fields of an instance's spec in SimpleSchema, such as
	// {"replicas": "integer | default=1 minimum=1"}.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec,omitempty"`

	// Versions are further versions in which the kind is served. They are an addition of
	// Espalier's.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Versions []Version `json:"versions,omitempty"`

	// Types names object types that spec may use, in SimpleSchema.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Types runtime.RawExtension `json:"types,omitempty"`

	// Status holds the fields of an instance's status as CEL expressions over
	// its resources; their types are inferred.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status runtime.RawExtension `json:"status,omitempty"`

	// Scale names the fields of the status that the scale subresource shows. The field of the spec with the marker
	// scale is the number of replicas that it sets. It is an addition of Espalier's.
	//
	// +optional
	Scale *Scale `json:"scale,omitempty"`

	// AdditionalPrinterColumns replace the default columns of kubectl get.
	//
	// +optional
	AdditionalPrinterColumns []apiextensionsv1.CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty"`

	// ShortNames are aliases of the kind on the command line.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	ShortNames []string `json:"shortNames,omitempty"`

	// Categories are groups of kinds that kubectl get can list together.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	Categories []string `json:"categories,omitempty"`

	// Metadata is added to the generated CustomResourceDefinition.
	//
	// +optional
	Metadata *CRDMetadata `json:"metadata,omitempty"`
}

// ResourceScope is the scope of a kind.
//
// +kubebuilder:validation:Enum=Namespaced;Cluster
type ResourceScope string

// Scopes of a kind.
const (
	NamespacedScope ResourceScope = "Namespaced"
	ClusterScope    ResourceScope = "Cluster"
)

// CRDMetadata is added to a generated CustomResourceDefinition.
type CRDMetadata struct {
	// Labels are labels of the CustomResourceDefinition.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are annotations of the CustomResourceDefinition.
	//
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// NameValidation restricts the names of instances with markers of SimpleSchema, such as
	// maxLength=30 pattern="^[a-z]+$". The markers minLength, maxLength, pattern, enum and
	// validation are supported. It becomes a part of the schema.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	NameValidation string `json:"nameValidation,omitempty"`
}

// Resource is a node of the graph: an object to apply, an object to read, or a value that
// other nodes read. It has exactly one of template, externalRef and value.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.template) && has(self.externalRef))",message="exactly one of template, externalRef or value must be provided"
// +kubebuilder:validation:XValidation:rule="!has(self.externalRef) || !has(self.deletionPolicy) || self.deletionPolicy == 'Delete'",message="deletionPolicy is only supported on template resources: what externalRef names is somebody else's, and never deleted"
type Resource struct {
	// ID names the node in expressions, in lowerCamelCase.
	//
	// +kubebuilder:validation:Required
	ID string `json:"id,omitempty"`

	// Template is the object to apply; its strings may contain ${CEL}.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template,omitempty"`

	// ExternalRef reads an object that does not belong to the instance.
	//
	// +optional
	ExternalRef *ExternalRef `json:"externalRef,omitempty"`

	// Value makes the node a variable: any value, whose strings may contain ${CEL}, that
	// other expressions read by the node's id. It creates no object and is not stored. It is
	// an addition of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Value runtime.RawExtension `json:"value,omitempty"`

	NodeOptions `json:",inline"`
}

// NodeOptions say when a node exists and when it is ready, and what happens to its objects. They are the same in
// definitions and in Graphs.
type NodeOptions struct {
	// ReadyWhen are conditions on the node's own object, all of which must be true. In a
	// collection they are evaluated for each item, as each, and must be true for all.
	//
	// +optional
	ReadyWhen []string `json:"readyWhen,omitempty"`

	// IncludeWhen are conditions for the node to exist, all of which must be true. A node
	// that depends on a skipped node is skipped too. A condition that reads an iterator of
	// forEach is evaluated for each item (an addition of Espalier's): an item that is
	// skipped is not in the collection.
	//
	// +optional
	IncludeWhen []string `json:"includeWhen,omitempty"`

	// PropagateWhen are conditions for the node's object to be created or changed, all of which must be true: while one
	// is false, the object stays as it is. They may read other nodes, the iterators of forEach, and whether objects are
	// ready() and updated(). In a collection, one can be linearlyReady(iterator, id, n) or exponentiallyReady(iterator, id):
	// then its items change in batches, each once the items before it are up to date and ready. Without conditions, the
	// ready items of a definition's collection with readyWhen change by exponentiallyReady.
	//
	// +optional
	PropagateWhen []string `json:"propagateWhen,omitempty"`

	// ForEach expands the node into a collection: an object for each value of an
	// iterator, or for each combination of the values of several, of which the last
	// varies fastest. The object's name or namespace must read every iterator.
	// An expression may read the iterators before it.
	//
	// +optional
	ForEach []ForEachDimension `json:"forEach,omitempty"`

	// WaitFor lists, by node id, fields that must exist before this node is rendered, and how
	// long they may take. It is an addition of Espalier's.
	//
	// +optional
	WaitFor map[string]WaitFor `json:"waitFor,omitempty"`

	// Adopt is what to do with an existing object of the same name that belongs to no
	// instance: Never, the default, leaves it unchanged; IfUnowned adopts it. It is an
	// addition of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:Enum=Never;IfUnowned
	Adopt AdoptPolicy `json:"adopt,omitempty"`

	// Conflicts is what to do when another manager has set a field of the node's object to a
	// different value: Force, the default, takes the field over; Refuse leaves the object
	// unchanged until the other manager releases the field. It is an addition of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:Enum=Force;Refuse
	Conflicts ConflictPolicy `json:"conflicts,omitempty"`

	// OnConflict is what to do when the API server rejects an update of the node's object
	// because a field is immutable: Wait, the default, leaves the object unchanged and
	// reports a problem; Recreate deletes it in the foreground and creates it anew, if the API server would accept it as a new object. An object that may hold
	// data, or that deletionPolicy keeps, is recreated only with allowDataLoss as well. It
	// is an addition of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:Enum=Wait;Recreate
	OnConflict OnConflictPolicy `json:"onConflict,omitempty"`

	// AllowDataLoss allows onConflict: Recreate to lose the data of the object. It is needed
	// for every kind except those that are known to hold no data, such as Deployment, Job or
	// RoleBinding. It is an addition of Espalier's.
	//
	// +optional
	AllowDataLoss bool `json:"allowDataLoss,omitempty"`

	// DriftPolicy is what to do about a field that another manager has changed since it was
	// applied: Correct, the default, reverts it; Warn reports it and leaves it until the
	// desired object changes; Ignore leaves the field to the other manager. It is an addition
	// of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:Enum=Correct;Warn;Ignore
	DriftPolicy DriftPolicy `json:"driftPolicy,omitempty"`

	// DriftPaths are the fields that DriftPolicy applies to, each with all fields below it,
	// such as spec.replicas, spec.template.spec.containers[*].image or
	// metadata.annotations["example.com/x"]; drift of other fields is corrected. By default
	// it applies to all fields. It is an addition of Espalier's.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	DriftPaths []string `json:"driftPaths,omitempty"`

	// ExternalFields are fields of the template that are applied until another manager sets
	// them, and left to that manager from then on, also when an existing object is adopted.
	// Each is a path such as spec.replicas, not through a list, with all fields below it.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	ExternalFields []string `json:"externalFields,omitempty"`

	// DeletionPolicy is what happens to the node's object when the instance is deleted, or
	// when the object is no longer desired: Delete, the default; Orphan, or Orphaned, leaves
	// it in place without the labels of the instance; Retain, an addition of Espalier's,
	// leaves it in place unchanged, so that an instance of the same name adopts it again.
	//
	// +optional
	// +kubebuilder:validation:Enum=Delete;Orphan;Orphaned;Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// DeleteAfter lists ids of nodes that must be gone before this one is deleted, in
	// addition to the nodes that depend on it. It is an addition of Espalier's.
	//
	// +optional
	// +listType=set
	DeleteAfter []string `json:"deleteAfter,omitempty"`
}

// ForEachDimension is one axis of a collection: a variable and the expression
// for its values.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type ForEachDimension map[string]string

// ExternalRef selects an object by name, or several by a selector, that do not belong to the
// instance.
type ExternalRef struct {
	// APIVersion is the group and version of the object.
	//
	// +kubebuilder:validation:Required
	APIVersion string `json:"apiVersion"`
	// Kind is the kind of the object.
	//
	// +kubebuilder:validation:Required
	Kind string `json:"kind"`
	// +kubebuilder:validation:Required
	Metadata ExternalRefMetadata `json:"metadata"`
}

// ExternalRefMetadata is a name or a selector, which may contain ${CEL}.
type ExternalRefMetadata struct {
	// Name is the name of the object. Exactly one of name and selector must be set.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name,omitempty"`

	// Namespace defaults to the instance's namespace, and with a selector to all namespaces.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Selector is a label selector, or an expression for one. The value of the node is then
	// the list of matching objects, which may be empty.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Selector runtime.RawExtension `json:"selector,omitempty"`
}
