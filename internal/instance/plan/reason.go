package plan

// Reason is why a node, and with it the instance, isn't ready. A reason is stable: tools match it.
// The message next to it is for people.
type Reason string

// Reasons to wait: nothing is wrong, something is missing yet.
const (
	// WaitingForField: a value that the node reads doesn't exist yet.
	WaitingForField Reason = "WaitingForField"
	// WaitingForReadiness: a node that this one depends on isn't ready.
	WaitingForReadiness Reason = "WaitingForReadiness"
	// NotReady: the node's object exists and isn't ready.
	NotReady Reason = "NotReady"
	// WaitingForKind: the node's kind isn't served.
	WaitingForKind Reason = "WaitingForKind"
	// WaitingForNamespace: the namespace of the node's object doesn't exist.
	WaitingForNamespace Reason = "WaitingForNamespace"
	// WaitingForExternal: the object that externalRef names doesn't exist.
	WaitingForExternal Reason = "WaitingForExternal"
	// NameHeld: a foreign object that is being deleted has the name of the node's object, which
	// is created once that is gone.
	NameHeld Reason = "NameHeld"
	// ResourceDeleting: the node's object is being deleted; it is recreated once it is gone.
	ResourceDeleting Reason = "ResourceDeleting"
	// WaitingForRevision: the revision of the composition or definition that is to compose the instance doesn't exist
	// yet.
	WaitingForRevision Reason = "WaitingForRevision"
	// NotPropagated: conditions of the definition hold a change of the node's object back.
	NotPropagated Reason = "NotPropagated"
	// Syncing: the watch of the node's kind has not synced yet.
	Syncing Reason = "Syncing"
)

// Reasons that need an action of a user.
const (
	// WaitTimeout: a waitFor exceeded its limit. Its fields are still watched.
	WaitTimeout Reason = "WaitTimeout"
	// NotOwned: an object of that name exists and isn't this instance's.
	NotOwned Reason = "NotOwned"
	// Forbidden: RBAC forbids this controller the kind or the object.
	Forbidden Reason = "Forbidden"
	// Rejected: validation or admission rejects the object.
	Rejected Reason = "Rejected"
	// EvaluationFailed: an expression has no value for these inputs.
	EvaluationFailed Reason = "EvaluationFailed"
	// ResolutionFailed: expressions of nodes or of the status have no value for these inputs.
	ResolutionFailed Reason = "ResolutionFailed"
	// TooManyItems: a collection has more items than one may have.
	TooManyItems Reason = "TooManyItems"
	// LimitExceeded: a limit of instances, which a flag sets, is exceeded.
	LimitExceeded Reason = "LimitExceeded"
	// WatchLimitExceeded: a limit of watches, which a flag sets, is exceeded. Unless it is the instance's own limit,
	// the end of another watch ends it.
	WatchLimitExceeded Reason = "WatchLimitExceeded"
	// DuplicateItems: items of a collection have the same name.
	DuplicateItems Reason = "DuplicateItems"
	// DriftContested: another manager keeps writing the same field.
	DriftContested Reason = "DriftContested"
	// FieldConflict: another manager has set a field of the object, and the node doesn't take it
	// over.
	FieldConflict Reason = "FieldConflict"
	// CompositionMissing: no composition can compose the instance.
	CompositionMissing Reason = "CompositionMissing"
	// RevisionMissing: the revision of its definition that the instance requests doesn't exist,
	// or can't compose it.
	RevisionMissing Reason = "RevisionMissing"
	// InvalidGraph: the nodes of a Graph don't compile.
	InvalidGraph Reason = "InvalidGraph"
	// ServiceAccountNotFound: the service account that the instance is reconciled as doesn't exist.
	ServiceAccountNotFound Reason = "ServiceAccountNotFound"
	// PipelineFailed: a step of the composition's pipeline has failed.
	PipelineFailed Reason = "PipelineFailed"
	// ReleaseFailed: fields that were contributed to an object can't be released.
	ReleaseFailed Reason = "ReleaseFailed"
	// Unavailable: a kind can't be watched, or a request failed and a retry may succeed.
	Unavailable Reason = "Unavailable"
)

// IsError reports whether the reason needs an action of a user: it puts the instance in error rather than in progress.
func (r Reason) IsError() bool {
	switch r {
	case WaitTimeout, NotOwned, Forbidden, Rejected, EvaluationFailed, TooManyItems, LimitExceeded, WatchLimitExceeded, DuplicateItems, DriftContested,
		FieldConflict, CompositionMissing, RevisionMissing, InvalidGraph, ServiceAccountNotFound, PipelineFailed, ReleaseFailed:
		return true
	default:
		return false
	}
}

// The cause is a mistake, or the API server or the kind is unavailable now.
func (r Reason) isFailure() bool {
	return r.IsError() || r == Unavailable || r == WaitingForKind || r == WaitingForNamespace
}

func (r Reason) isOfExpressions() bool {
	return r == EvaluationFailed || r == TooManyItems || r == LimitExceeded || r == DuplicateItems
}
