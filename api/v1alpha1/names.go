package v1alpha1

// Labels, annotations and finalizers of the dialect.
const (
	Prefix         = "kro.run/"
	InternalPrefix = "internal.kro.run/"

	// Finalizer is on definitions and on instances of a ResourceGraphDefinition.
	Finalizer = "kro.run/finalizer"
	// FinalizerSuffix is the end of finalizers with a name or, in former versions, with a
	// UID: <name>.<namespace>.kro.run/finalizer.
	FinalizerSuffix = ".kro.run/finalizer"

	OwnedLabel             = "kro.run/owned"
	VersionLabel           = "kro.run/kro-version"
	DefinitionIDLabel      = "kro.run/resource-graph-definition-id"
	DefinitionNameLabel    = "kro.run/resource-graph-definition-name"
	DefinitionNSLabel      = "kro.run/resource-graph-definition-namespace"
	InstanceIDLabel        = "kro.run/instance-id"
	InstanceNameLabel      = "kro.run/instance-name"
	InstanceNamespaceLabel = "kro.run/instance-namespace"
	InstanceGroupLabel     = "kro.run/instance-group"
	InstanceVersionLabel   = "kro.run/instance-version"
	InstanceKindLabel      = "kro.run/instance-kind"
	NodeIDLabel            = "kro.run/node-id"
	// CollectionIndexLabel and CollectionSizeLabel are on the items of a collection:
	// the index of the item, from 0, and the number of items.
	CollectionIndexLabel = "kro.run/collection-index"
	CollectionSizeLabel  = "kro.run/collection-size"
	ManagedByLabel       = "app.kubernetes.io/managed-by"
	ManagedByValue       = "kro"

	AllowBreakingAnnotation = "kro.run/allow-breaking-changes"
	AllowOrphansAnnotation  = "kro.run/allow-orphans"
	// ReconcileAnnotation suspends one instance, with the value ReconcileSuspended or, in
	// older manifests, ReconcileDisabled, in any case.
	ReconcileAnnotation = "kro.run/reconcile"
	ReconcileSuspended  = "suspended"
	ReconcileDisabled   = "disabled"
	// ApplyOrderAnnotation is a child's position in the order of application, from 1.
	// Children that can be applied in parallel have the same.
	ApplyOrderAnnotation = "internal.kro.run/apply-order"
	// NodePathAnnotation is on children: the id of the node. NodeIDLabel has dots for its slashes, or is a hash
	// of it if it is too long for a label.
	NodePathAnnotation = "internal.kro.run/node-path"
	// InstanceNameAnnotation is the instance's name, and InstanceGroupAnnotation the group of its kind, if they are too
	// long for a label, which is a hash then.
	InstanceNameAnnotation  = "internal.kro.run/instance-name"
	InstanceGroupAnnotation = "internal.kro.run/instance-group"
	// PolicyAnnotation is in a template: DeletionDelete or DeletionOrphaned. With the latter it is on a child that is
	// left in place, as FormerPolicyAnnotation was before.
	PolicyAnnotation       = "kro.run/deletion-policy"
	FormerPolicyAnnotation = "internal.kro.run/deletion-policy"
)

// Labels and annotations of an ApplySet, KEP-3659.
const (
	ApplySetIDLabel              = "applyset.kubernetes.io/id"
	ApplySetPartOfLabel          = "applyset.kubernetes.io/part-of"
	ApplySetToolingAnnotation    = "applyset.kubernetes.io/tooling"
	ApplySetKindsAnnotation      = "applyset.kubernetes.io/contains-group-kinds"
	ApplySetNamespacesAnnotation = "applyset.kubernetes.io/additional-namespaces"
	ApplySetHashAnnotation       = "internal.kro.run/applyset-inventory-hash"
)

// Annotations of Espalier's on children: what a reconcile needs to know without a request,
// and what the deletion needs to know without the definition.
const (
	// AppliedAnnotation is the digest of the configuration that was last applied: a reconcile compares it to find a
	// change.
	AppliedAnnotation = "espalier.dev/applied"
	// DependsOnAnnotation lists the ids of the nodes that the child's node depends on, and DeleteAfterAnnotation the
	// nodes that must be gone before it is deleted, both separated by commas.
	DependsOnAnnotation   = "espalier.dev/depends-on"
	DeleteAfterAnnotation = "espalier.dev/delete-after"
	// OnDeleteAnnotation is the DeletionPolicy of the child's node, unless it is Delete.
	OnDeleteAnnotation = "espalier.dev/on-delete"
	// RetainedFromAnnotation is the UID of the instance that retained the child because the
	// instance's annotation demanded it.
	RetainedFromAnnotation = "espalier.dev/retained-from"
	// FormerNameAnnotation and FormerGroupAnnotation were written in place of InstanceNameAnnotation and
	// InstanceGroupAnnotation.
	FormerNameAnnotation  = "espalier.dev/instance-name"
	FormerGroupAnnotation = "espalier.dev/instance-group"
	// StringDataAnnotation is "true" on a Secret whose data were all given as stringData. Another
	// engine that gets the Secret back applies, and owns, stringData.
	StringDataAnnotation = "espalier.dev/string-data"
	// SignatureAnnotation proves that the child was applied for its instance and node: no client without the
	// installation's signing key can compute it.
	SignatureAnnotation = "espalier.dev/signature"
)

// The signing key of an installation.
const (
	// SigningKeySecret is the name of the Secret with the key. SigningKeyAnnotation, on the
	// CustomResourceDefinition of Bindings, is the Secret's namespace.
	SigningKeySecret     = "espalier-signing-key"
	SigningKeyAnnotation = "espalier.dev/signing-key"
	// UnsignedBeforeAnnotation is on the Secret: until when children and inventories without
	// signature are accepted, in RFC 3339 or UnsignedNever, instead of the Secret's creation.
	UnsignedBeforeAnnotation = "espalier.dev/unsigned-before"
	UnsignedNever            = "never"
	// TakenOverAnnotation is on the CustomResourceDefinition of a graph's kind that another
	// engine served before: since when Espalier does, in RFC 3339.
	TakenOverAnnotation = "espalier.dev/taken-over"
	// SchemaAnnotation is on the CustomResourceDefinitions that programs install: a number that increases with each
	// change of the schema. A program does not replace one with a higher number than its own.
	SchemaAnnotation = "espalier.dev/schema"
)

// DeletionDefaultsAnnotation is on instances: what the definition sets for their deletion.
const DeletionDefaultsAnnotation = "espalier.dev/deletion-defaults"

// Annotations of Espalier's that users set.
const (
	// RecreateAnnotation is on a child: when the API server rejects an update of it, it is deleted in the foreground
	// and created anew, if the server would accept it as a new object. Its value is RecreateTrue or, for an object
	// that may hold data or whose policy keeps it, RecreateAllowDataLoss. The new object lacks the annotation.
	RecreateAnnotation    = "espalier.dev/recreate"
	RecreateTrue          = "true"
	RecreateAllowDataLoss = "allow-data-loss"

	// ProtectAnnotation prevents the deletion of an instance or a child; its value is the
	// reason.
	ProtectAnnotation = "espalier.dev/protect"
	// DeletionPolicyAnnotation overrides the deletion policies of one instance's children, as
	// far as InstanceOverrides allow: a DeletionPolicy for all, or "node=Policy" for single
	// ones, separated by commas.
	DeletionPolicyAnnotation = "espalier.dev/deletion-policy"
	// ClaimableAnnotation is on a composite that no claim refers to, or on its
	// CompositeResourceDefinition for all of them: a claim that names the composite takes it
	// over. Its value is ClaimableTrue or, on a composite, the claim as namespace/name.
	ClaimableAnnotation = "espalier.dev/claimable"
	ClaimableTrue       = "true"
	// AdoptAnnotation is on a resource in a composition. With the value AdoptIfUnowned it takes
	// over an existing object of its name that has no owner.
	AdoptAnnotation = "espalier.dev/adopt"
	// OwnerReferencesAnnotation, with the value OwnerReferencesNone, removes the owner
	// references from the children of one instance.
	OwnerReferencesAnnotation = "espalier.dev/owner-references"
	// DeletionTimeoutAnnotation and ForceAfterAnnotation are durations for one
	// instance, as in a definition's spec.deletion.
	DeletionTimeoutAnnotation = "espalier.dev/deletion-timeout"
	ForceAfterAnnotation      = "espalier.dev/force-after"
	// ForceDeleteAnnotation names blockers of an instance's deletion to leave behind: ids of
	// nodes, "Kind/name", or "all", separated by commas.
	ForceDeleteAnnotation = "espalier.dev/force-delete"
)

// Field managers.
const (
	ChildManager    = "kro.run/applyset"
	InstanceManager = "kro.run/applyset-parent"
	StatusManager   = "kro.run/status"
	// GraphManagerPrefix begins the managers with which kro applies the objects of Graphs.
	GraphManagerPrefix = "kro-graphengine.tmpl."
)
