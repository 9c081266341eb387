package operation

import (
	"fmt"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// isReplaced reports whether the bound external resource was deleted, and another client has created the observed one
// with its identity. One that carries a mark is not: it was restored with ours, or isForeign reports it.
func (s State) isReplaced() bool {
	b, seen := s.Binding, s.Observed
	return !b.Shared && b.Ref != "" && seen.Mark == nil && b.Incarnation != "" && seen.Incarnation != "" && seen.Incarnation != b.Incarnation
}

// releaseReplaced ends the binding to an external resource that is gone. The one that has its name is adopted
// afterwards only as if it had existed before the managed resource: that the user has chosen the name, or that the
// annotation has it, does not show that the other one is meant.
func (s State) releaseReplaced() Step {
	step := s.updateBinding(func(b *binding.BindingSpec) {
		b.Ref, b.StaleName, b.Incarnation, b.Phase, b.Explicit = "", b.Ref, "", binding.BindingReserved, false
		b.AbsentSince, b.AbsentBefore, b.Doubted = nil, nil, nil
	})
	step.Event = Event{"ExternalResourceReplaced", fmt.Sprintf("the external resource %s was deleted, and another client has created one with its name",
		s.Binding.Ref)}
	return step
}

// isStaleName reports whether the annotation has the identity of an external resource that is gone.
func (s State) isStaleName() bool {
	return s.Resource.ExternalName != "" && s.Resource.ExternalName == s.Binding.StaleName
}

// observedIncarnation is the incarnation of the observed external resource, if that has the identity.
func (s State) observedIncarnation(ref external.Ref) string {
	if s.Observed == nil || s.Observed.Presence != external.Present || s.observedRef() != ref {
		return ""
	}
	return s.Observed.Incarnation
}
