package v1alpha1

// AdoptPolicy says what to do with an existing object that nobody here keeps.
type AdoptPolicy string

// Policies of adoption.
const (
	AdoptNever     AdoptPolicy = "Never"
	AdoptIfUnowned AdoptPolicy = "IfUnowned"
)

// ConflictPolicy says what to do about a field that somebody else has set.
type ConflictPolicy string

// Policies of conflicts.
const (
	ConflictForce  ConflictPolicy = "Force"
	ConflictRefuse ConflictPolicy = "Refuse"
)

// OnConflictPolicy says what to do when the API server rejects an update of an object that
// it would accept as a new one, since fields of it can't be changed.
type OnConflictPolicy string

// Policies for updates that are rejected.
const (
	// OnConflictWait leaves the object as it is, and says so.
	OnConflictWait OnConflictPolicy = "Wait"
	// OnConflictRecreate deletes the object in the foreground and creates it anew.
	OnConflictRecreate OnConflictPolicy = "Recreate"
)

// DriftPolicy says what to do about a field that somebody else has changed.
type DriftPolicy string

// Policies of drift.
const (
	DriftCorrect DriftPolicy = "Correct"
	DriftWarn    DriftPolicy = "Warn"
	DriftIgnore  DriftPolicy = "Ignore"
)

// OwnerReferences says whom objects refer to as their owner.
type OwnerReferences string

// Whom objects refer to.
const (
	OwnerReferencesInstance OwnerReferences = "Instance"
	OwnerReferencesNone     OwnerReferences = "None"
)
