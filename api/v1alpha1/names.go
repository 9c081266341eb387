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
	ManagedByLabel         = "app.kubernetes.io/managed-by"
	ManagedByValue         = "kro"

	AllowBreakingAnnotation = "kro.run/allow-breaking-changes"
	AllowOrphansAnnotation  = "kro.run/allow-orphans"
	ReconcileAnnotation     = "kro.run/reconcile"
	ApplyOrderAnnotation    = "internal.kro.run/apply-order"
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

// AppliedAnnotation is Espalier's: the digest of what was last applied to a
// child, by which a pass knows without a request that nothing has changed.
const AppliedAnnotation = "espalier.dev/applied"

// Field managers.
const (
	ChildManager    = "kro.run/applyset"
	InstanceManager = "kro.run/applyset-parent"
	StatusManager   = "kro.run/status"
)
