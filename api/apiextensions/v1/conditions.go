package v1

// Types of conditions on definitions and revisions.
const (
	// Established: the composite kind is served and reconciled.
	TypeEstablished = "Established"
	// Offered: the kind that claims composites is served and reconciled.
	TypeOffered = "Offered"
	// ValidPipeline: all functions of a revision can do what compositions ask of
	// them.
	TypeValidPipeline = "ValidPipeline"
)

// Reasons of conditions on definitions and revisions.
const (
	ReasonWatchingComposite    = "WatchingCompositeResource"
	ReasonWatchingClaim        = "WatchingCompositeResourceClaim"
	ReasonTerminatingComposite = "TerminatingCompositeResource"
	ReasonTerminatingClaim     = "TerminatingCompositeResourceClaim"

	ReasonValidPipeline       = "ValidPipeline"
	ReasonMissingCapabilities = "MissingCapabilities"
)

// Types of conditions on composites and claims. Only the controllers set them: functions
// cannot.
const (
	TypeReady      = "Ready"
	TypeSynced     = "Synced"
	TypeHealthy    = "Healthy"
	TypeResponsive = "Responsive"
)

// Reasons of conditions on composites and claims.
const (
	ReasonAvailable   = "Available"
	ReasonUnavailable = "Unavailable"
	ReasonCreating    = "Creating"
	ReasonDeleting    = "Deleting"

	ReasonReconcileSuccess = "ReconcileSuccess"
	ReasonReconcileError   = "ReconcileError"
	ReasonReconcilePaused  = "ReconcilePaused"

	ReasonWatchCircuitOpen   = "WatchCircuitOpen"
	ReasonWatchCircuitClosed = "WatchCircuitClosed"
)

// IsSystemCondition reports whether only the controllers set conditions of a type.
func IsSystemCondition(kind string) bool {
	switch kind {
	case TypeReady, TypeSynced, TypeHealthy, TypeResponsive:
		return true
	}
	return false
}
