package v1

// Types of conditions on packages, on their revisions and on the Lock.
const (
	TypeInstalled       = "Installed"
	TypeHealthy         = "Healthy"
	TypeRevisionHealthy = "RevisionHealthy"
	TypeRuntimeHealthy  = "RuntimeHealthy"
	TypeRuntimeActive   = "RuntimeActive"
	TypeResolved        = "Resolved"
	TypeVerified        = "Verified"
)

// Reasons of these conditions.
const (
	ReasonUnpacking     = "UnpackingPackage"
	ReasonInactive      = "InactivePackageRevision"
	ReasonActive        = "ActivePackageRevision"
	ReasonUnhealthy     = "UnhealthyPackageRevision"
	ReasonHealthy       = "HealthyPackageRevision"
	ReasonUnknownHealth = "UnknownPackageRevisionHealth"

	ReasonActiveRuntime      = "ActiveRuntime"
	ReasonAwaitingActivation = "AwaitingActivation"

	ReasonResolutionSucceeded = "DependencyResolutionSucceeded"
	ReasonResolutionFailed    = "DependencyResolutionFailed"
)
