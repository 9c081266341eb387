package v1alpha1

// AdoptPolicy is what to do with an existing object that belongs to no instance.
type AdoptPolicy string

// Policies of adoption.
const (
	AdoptNever     AdoptPolicy = "Never"
	AdoptIfUnowned AdoptPolicy = "IfUnowned"
)

// ConflictPolicy is what to do about a field that another manager has set.
type ConflictPolicy string

// Policies of conflicts.
const (
	ConflictForce  ConflictPolicy = "Force"
	ConflictRefuse ConflictPolicy = "Refuse"
)

// OnConflictPolicy is what to do when the API server rejects an update because a field is
// immutable.
type OnConflictPolicy string

// Policies for updates that are rejected.
const (
	// OnConflictWait leaves the object unchanged, and reports a problem.
	OnConflictWait OnConflictPolicy = "Wait"
	// OnConflictRecreate deletes the object in the foreground and creates it anew.
	OnConflictRecreate OnConflictPolicy = "Recreate"
)

// DriftPolicy is what to do about a field that another manager has changed.
type DriftPolicy string

// Policies of drift.
const (
	DriftCorrect DriftPolicy = "Correct"
	DriftWarn    DriftPolicy = "Warn"
	DriftIgnore  DriftPolicy = "Ignore"
)

// OwnerReferences is what the children of an instance have as their owner.
type OwnerReferences string

// Owners of children.
const (
	OwnerReferencesInstance OwnerReferences = "Instance"
	OwnerReferencesNone     OwnerReferences = "None"
)
