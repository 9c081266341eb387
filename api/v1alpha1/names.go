package v1alpha1

// Labels, annotations and finalizers of the dialect.
const (
	Prefix         = "kro.run/"
	InternalPrefix = "internal.kro.run/"

	// Finalizer is carried by definitions and by instances of a
	// ResourceGraphDefinition.
	Finalizer = "kro.run/finalizer"
	// FinalizerSuffix ends the finalizers that derive from a name or, in former
	// incarnations, from a UID: <name>.<namespace>.kro.run/finalizer.
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
	// the item's place, from 0, and how many there are.
	CollectionIndexLabel = "kro.run/collection-index"
	CollectionSizeLabel  = "kro.run/collection-size"
	ManagedByLabel       = "app.kubernetes.io/managed-by"
	ManagedByValue       = "kro"

	AllowBreakingAnnotation = "kro.run/allow-breaking-changes"
	AllowOrphansAnnotation  = "kro.run/allow-orphans"
	// ReconcileAnnotation suspends one instance, by the value ReconcileSuspended or, of
	// old, ReconcileDisabled, in whatever case.
	ReconcileAnnotation = "kro.run/reconcile"
	ReconcileSuspended  = "suspended"
	ReconcileDisabled   = "disabled"
	// ApplyOrderAnnotation is a child's place in the order of application, from 1: what
	// can be applied side by side has the same.
	ApplyOrderAnnotation = "internal.kro.run/apply-order"
	// OrphanedAnnotation says, by DeletionOrphaned, of a child that it is left in place.
	OrphanedAnnotation = "internal.kro.run/deletion-policy"
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

// Annotations of Espalier's on children: what a pass has to know of a child
// without a request, and how to take it apart without its definition.
const (
	// AppliedAnnotation is the digest of what was last applied, by which a pass
	// knows that nothing has changed.
	AppliedAnnotation = "espalier.dev/applied"
	// DependsOnAnnotation lists the ids of the nodes that the child's own depends
	// on, and DeleteAfterAnnotation those that have to go before it, both with
	// commas.
	DependsOnAnnotation   = "espalier.dev/depends-on"
	DeleteAfterAnnotation = "espalier.dev/delete-after"
	// OnDeleteAnnotation is the DeletionPolicy of the child's node, if it isn't
	// Delete.
	OnDeleteAnnotation = "espalier.dev/on-delete"
	// RetainedFromAnnotation is the UID of an instance that has left the child in
	// place, as it was, because its own annotation said so.
	RetainedFromAnnotation = "espalier.dev/retained-from"
	// InstanceNameAnnotation is the instance's name, where a label has no room for
	// it.
	InstanceNameAnnotation = "espalier.dev/instance-name"
)

// DeletionDefaultsAnnotation is Espalier's on instances: the limits of deletion
// that their definition sets.
const DeletionDefaultsAnnotation = "espalier.dev/deletion-defaults"

// Annotations of Espalier's that people put on.
const (
	// RecreateAnnotation is on a child: when the API server rejects an update of it, it is
	// deleted in the foreground and created anew, if the server would accept it as a new
	// object. Its value is RecreateTrue or, for an object that may hold data or that is to
	// be kept, RecreateAllowDataLoss. The annotation goes with the object.
	RecreateAnnotation    = "espalier.dev/recreate"
	RecreateTrue          = "true"
	RecreateAllowDataLoss = "allow-data-loss"

	// ProtectAnnotation keeps an instance or a child, while it is there; its value
	// is the reason.
	ProtectAnnotation = "espalier.dev/protect"
	// DeletionPolicyAnnotation says of one instance what becomes of its children
	// instead of what the definition says: a DeletionPolicy for all, or
	// "node=Policy" for single ones, with commas.
	DeletionPolicyAnnotation = "espalier.dev/deletion-policy"
	// OwnerReferencesAnnotation says of one instance, by OwnerReferencesNone, that its
	// children don't refer to it as their owner.
	OwnerReferencesAnnotation = "espalier.dev/owner-references"
	// DeletionTimeoutAnnotation and ForceAfterAnnotation are durations for one
	// instance, as in a definition's spec.deletion.
	DeletionTimeoutAnnotation = "espalier.dev/deletion-timeout"
	ForceAfterAnnotation      = "espalier.dev/force-after"
	// ForceDeleteAnnotation names blockers of an instance's deletion that are to
	// be let go of: ids of nodes, "Kind/name", or "all", with commas.
	ForceDeleteAnnotation = "espalier.dev/force-delete"
)

// Field managers.
const (
	ChildManager    = "kro.run/applyset"
	InstanceManager = "kro.run/applyset-parent"
	StatusManager   = "kro.run/status"
)
