package v1

// Types of conditions on functions and their revisions.
const (
	TypeInstalled       = "Installed"
	TypeHealthy         = "Healthy"
	TypeRevisionHealthy = "RevisionHealthy"
	TypeRuntimeHealthy  = "RuntimeHealthy"
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
)
