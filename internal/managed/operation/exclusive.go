package operation

import (
	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// makeExclusive turns a shared binding into an exclusive one, because the policies now allow creation or deletion. It
// requires that the external resource belongs to no other owner and that no other binding reserves its name.
func (s State) makeExclusive() Step {
	mark, name := s.Binding.Mark, external.Ref(s.Binding.Key.Name)
	if s.Caps.Naming == external.ProviderAssigned {
		name = external.Ref(s.Binding.Ref)
	}
	if s.Binding.Ref != "" {
		if step, done := s.observe(); done {
			return step
		}
		if s.Observed.Presence == external.Present {
			exclusive := s
			exclusive.Binding = s.Binding.DeepCopy()
			exclusive.Binding.Shared = false
			var conflict string
			if mark, conflict = exclusive.checkOwnership(); conflict != "" {
				return s.refuse(conflict).with(s.readyCondition())
			}
		}
	}
	switch {
	case s.IdentityReservedBy != nil:
		return s.reservedBy(s.IdentityReservedBy)
	case name != "" && !s.IdentityReserved:
		return Step{Do: ReserveIdentity, Ref: name}
	}
	return s.updateBinding(func(b *binding.BindingSpec) { b.Shared, b.Mark = false, mark })
}
