package v1

// Labels, annotations and finalizers of composites, claims and composed resources.
const (
	// CompositeLabel names the composite at the root of a tree of composites.
	CompositeLabel = "crossplane.io/composite"
	// ClaimNameLabel and ClaimNamespaceLabel name the claim of that composite.
	ClaimNameLabel      = "crossplane.io/claim-name"
	ClaimNamespaceLabel = "crossplane.io/claim-namespace"

	// CompositionResourceNameAnnotation is the name of a composed resource in the pipeline.
	CompositionResourceNameAnnotation = "crossplane.io/composition-resource-name"
	// PausedAnnotation stops the reconciliation of an object while it is "true".
	PausedAnnotation = "crossplane.io/paused"

	// DefinitionFinalizer and OfferedFinalizer keep a definition until its composite
	// kind, and the kind that claims it, are gone.
	DefinitionFinalizer = "defined.apiextensions.crossplane.io"
	OfferedFinalizer    = "offered.apiextensions.crossplane.io"
	// CompositeFinalizer and ClaimFinalizer keep a composite until its composed resources are
	// gone, and a claim until its composite is.
	CompositeFinalizer = "composite.apiextensions.crossplane.io"
	ClaimFinalizer     = "finalizer.apiextensions.crossplane.io"
)
