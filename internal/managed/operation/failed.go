package operation

import (
	"fmt"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// leavesTraces says that what the open creation has left, having failed, will be seen
// for certain: its call was made once, so that no other is on its way, and what there
// may be has a name of ours, or an identity that was told, or carries its mark from the
// beginning and can be found by that.
func (s State) leavesTraces() bool {
	op := s.Binding.Operation
	known := s.Caps.Naming == external.CallerAssigned || op.Ref != "" || s.Caps.Findable && s.Caps.Marked
	return known && !op.Repeated && op.Failed == nil
}

// byTraces looks by the mark for what a failed creation has left.
func (s State) byTraces() Step {
	switch {
	case s.left(*s.Binding.Operation.Failed) > 0:
		return s.leftNothing() // nothing that shows yet
	case s.LookFailed != nil:
		return Fails(fmt.Errorf("look for what the creation has left: %w", s.LookFailed))
	case !s.Searched:
		return Step{Do: Search}
	case len(s.Found) > 1:
		return s.several()
	case len(s.Found) == 1:
		return s.bind(s.Found[0].Ref, s.Binding.Mark)
	}
	return s.leftNothing()
}

// leftNothing closes a failed creation of which nothing is there, once the external API
// shows everything. What is wanted by then is asked for as another.
func (s State) leftNothing() Step {
	left := s.left(*s.Binding.Operation.Failed)
	switch {
	case left > 0 && s.Failed != nil:
		step := Fails(s.Failed)
		step.After = max(step.After, left)
		return step
	case left > 0:
		return s.settles(left)
	}
	return s.record(func(b *binding.BindingSpec) { b.Operation, b.Unresolved, b.Phase = nil, nil, binding.BindingReserved })
}
