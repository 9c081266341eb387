package operation

import (
	"fmt"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// takeOn binds what is there, if it is ours or may become so.
func (s State) takeOn() Step {
	mark, why := s.ours()
	if why == "" {
		return s.bind(s.refOf(), mark)
	}
	if s.Binding.Operation != nil {
		// What is there is somebody else's, so that ours was never made.
		return s.record(func(b *binding.BindingSpec) { b.Operation, b.Phase = nil, binding.BindingReserved })
	}
	return rest(resource.Conflict, why, s.soon())
}

// refOf is the identity of what was seen.
func (s State) refOf() external.Ref {
	if s.Look.Ref != "" {
		return s.Look.Ref
	}
	return s.ref()
}

// ours says by which mark what was seen is ours, or why it isn't.
func (s State) ours() (mark, why string) {
	b, seen := s.Binding, s.Look.Mark
	switch {
	case b.Shared, s.mark().Is(seen):
		return b.Mark, ""
	case seen != nil && seen.Owner == s.MarkOwner:
		return seen.ID, "" // its binding was lost
	case seen != nil:
		return "", fmt.Sprintf("the external resource %s exists already and carries the mark of %s; it is left alone", s.refOf(), seen.Owner)
	case b.Explicit, s.Resource.Adopt, s.hasComeSince():
		return b.Mark, ""
	}
	return "", fmt.Sprintf("the external resource %s exists already and nothing says that it is this one's; it is left alone. To take it on, set the annotation %s to its identity, or %s to %s",
		s.refOf(), resource.ExternalNameAnnotation, resource.AdoptAnnotation, resource.AdoptIfUnmarked)
}

// hasComeSince says that a kind whose resources can't be marked had none of the
// key before our first attempt, and has one since.
func (s State) hasComeSince() bool {
	b := s.Binding
	if s.Caps.Marked || b.AbsentBefore == nil || b.Attempts == 0 {
		return false
	}
	return s.Look.Created.IsZero() || !s.Look.Created.Before(b.AbsentBefore.Time)
}

// foreign says that what was seen under our identity carries somebody else's mark.
func (s State) foreign() bool {
	seen := s.Look.Mark
	return !s.Binding.Shared && seen != nil && !s.mark().Is(seen) && seen.Owner != s.MarkOwner
}
