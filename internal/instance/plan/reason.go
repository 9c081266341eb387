package plan

// Reason is why a node, and with it the instance, isn't where it should be. A
// reason is stable: tools match it. The message next to it is for people.
type Reason string

// Reasons to wait: nothing is wrong, something is not there yet.
const (
	// WaitingForField: a value that the node reads isn't there yet.
	WaitingForField Reason = "WaitingForField"
	// WaitingForReadiness: a node that this one depends on isn't ready.
	WaitingForReadiness Reason = "WaitingForReadiness"
	// NotReady: the node's object is there and isn't ready.
	NotReady Reason = "NotReady"
	// WaitingForKind: no server knows the node's kind.
	WaitingForKind Reason = "WaitingForKind"
	// WaitingForNamespace: the namespace that the node's object belongs into isn't
	// there.
	WaitingForNamespace Reason = "WaitingForNamespace"
	// WaitingForExternal: the object that externalRef names isn't there.
	WaitingForExternal Reason = "WaitingForExternal"
	// NameHeld: an object of somebody else's has the name of the node's, and is on
	// its way; the node's is made once it is gone.
	NameHeld Reason = "NameHeld"
	// ResourceDeleting: the node's object is being deleted; it is made anew once it
	// is gone.
	ResourceDeleting Reason = "ResourceDeleting"
	// WaitingForRevision: the revision, of its composition or of its definition, that the
	// instance is to be composed by isn't there yet.
	WaitingForRevision Reason = "WaitingForRevision"
	// Syncing: the watch of the node's kind hasn't caught up yet.
	Syncing Reason = "Syncing"
)

// Reasons that are somebody's to solve.
const (
	// WaitTimeout: a waitFor passed its limit. Its fields are watched all the
	// same.
	WaitTimeout Reason = "WaitTimeout"
	// NotOwned: an object of that name exists and isn't this instance's.
	NotOwned Reason = "NotOwned"
	// Forbidden: the API server refuses this controller the kind or the object.
	Forbidden Reason = "Forbidden"
	// Rejected: the API server refuses the object, by validation or admission.
	Rejected Reason = "Rejected"
	// EvaluationFailed: an expression has no value for these inputs.
	EvaluationFailed Reason = "EvaluationFailed"
	// ResolutionFailed: expressions of nodes or of the status have no value for these inputs.
	ResolutionFailed Reason = "ResolutionFailed"
	// TooManyItems: a collection has more items than one may have.
	TooManyItems Reason = "TooManyItems"
	// DuplicateItems: items of a collection are called the same.
	DuplicateItems Reason = "DuplicateItems"
	// DriftContested: somebody else keeps writing the same field.
	DriftContested Reason = "DriftContested"
	// FieldConflict: somebody else has set a field of the object, and the node doesn't
	// take it over.
	FieldConflict Reason = "FieldConflict"
	// CompositionMissing: there is no composition that the instance can be composed by.
	CompositionMissing Reason = "CompositionMissing"
	// RevisionMissing: the revision of its definition that the instance asks for isn't
	// there, or can't compose it.
	RevisionMissing Reason = "RevisionMissing"
	// PipelineFailed: a step of the composition's pipeline has failed.
	PipelineFailed Reason = "PipelineFailed"
	// Unavailable: a kind can't be watched, or a request failed for a reason
	// that may pass.
	Unavailable Reason = "Unavailable"
)

// IsError says whether somebody has to do something about it: the difference
// between an instance in progress and one in error.
func (r Reason) IsError() bool {
	switch r {
	case WaitTimeout, NotOwned, Forbidden, Rejected, EvaluationFailed, TooManyItems, DuplicateItems, DriftContested, FieldConflict, CompositionMissing, RevisionMissing, PipelineFailed:
		return true
	default:
		return false
	}
}

// isFailure says whether what is wanted could not be asked for: by somebody's mistake, or
// because the API server or the kind isn't there now.
func (r Reason) isFailure() bool {
	return r.IsError() || r == Unavailable || r == WaitingForKind || r == WaitingForNamespace
}

// isOfExpressions says whether it comes of what the definition's expressions make of
// these inputs.
func (r Reason) isOfExpressions() bool {
	return r == EvaluationFailed || r == TooManyItems || r == DuplicateItems
}
