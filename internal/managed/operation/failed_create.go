package operation

import (
	"fmt"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// isFailureFindable reports whether anything that the failed creation has left is certain to
// be found: the call was made once, so no other call can still arrive, and the resource has
// a name that we chose, or an identity that the API has returned, or carries its mark from
// its creation on and can be found by it.
func (s State) isFailureFindable() bool {
	op := s.Binding.Operation
	known := s.Caps.Naming == external.CallerAssigned || op.Ref != "" || s.Caps.Findable && s.Caps.Marked
	return known && !op.Repeated && op.Failed == nil
}

// resolveFailedCreate searches by the mark for what a failed creation has left.
func (s State) resolveFailedCreate() Step {
	switch {
	case s.untilVisible(*s.Binding.Operation.Failed) > 0:
		return s.closeFailedCreate() // which waits until it is visible
	case s.ObserveErr != nil:
		return Failure(fmt.Errorf("search for what the failed creation has left: %w", s.ObserveErr))
	case !s.SearchedByMark:
		return Step{Do: FindByMark}
	case len(s.FoundByMark) > 1:
		return s.reportDuplicates()
	case len(s.FoundByMark) == 1:
		return s.bind(s.FoundByMark[0].Ref, s.Binding.Mark)
	}
	return s.closeFailedCreate()
}

// closeFailedCreate closes a failed creation that has left nothing, once the external API
// shows all effects. The next creation is a new operation, with the spec as it is then.
func (s State) closeFailedCreate() Step {
	left := s.untilVisible(*s.Binding.Operation.Failed)
	switch {
	case left > 0 && s.OperationErr != nil:
		step := Failure(s.OperationErr)
		step.After = max(step.After, left)
		return step
	case left > 0:
		return s.awaitVisible(left)
	}
	return s.updateBinding(func(b *binding.BindingSpec) { b.Operation, b.Unresolved, b.Phase = nil, nil, binding.BindingReserved })
}
