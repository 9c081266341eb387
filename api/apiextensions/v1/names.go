package v1

// Labels, annotations and finalizers of composites, claims and what they are composed
// of.
const (
	// CompositeLabel names the composite at the root of a tree of composites.
	CompositeLabel = "crossplane.io/composite"
	// ClaimNameLabel and ClaimNamespaceLabel name the claim of that composite.
	ClaimNameLabel      = "crossplane.io/claim-name"
	ClaimNamespaceLabel = "crossplane.io/claim-namespace"

	// CompositionResourceNameAnnotation is by which a pipeline knows a composed object.
	CompositionResourceNameAnnotation = "crossplane.io/composition-resource-name"
	// PausedAnnotation stops the reconciliation of an object while it is "true".
	PausedAnnotation = "crossplane.io/paused"

	// DefinitionFinalizer and OfferedFinalizer keep a definition until its composite
	// kind, and the kind that claims it, are gone.
	DefinitionFinalizer = "defined.apiextensions.crossplane.io"
	OfferedFinalizer    = "offered.apiextensions.crossplane.io"
	// CompositeFinalizer and ClaimFinalizer keep a composite and a claim until what
	// they consist of is gone.
	CompositeFinalizer = "composite.apiextensions.crossplane.io"
	ClaimFinalizer     = "finalizer.apiextensions.crossplane.io"
)
