package operation

import (
	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// takeAlone makes a binding that others may share with into one that excludes them,
// since the policies have come to allow creation or deletion: if what is there may be
// ours alone, and its place is nobody else's.
func (s State) takeAlone() Step {
	mark, place := s.Binding.Mark, external.Ref(s.Binding.Key.Name)
	if s.Caps.Naming == external.ProviderAssigned {
		place = external.Ref(s.Binding.Ref)
	}
	if s.Binding.Ref != "" {
		if step, done := s.look(); done {
			return step
		}
		if s.Look.Presence == external.Present {
			alone := s
			alone.Binding = s.Binding.DeepCopy()
			alone.Binding.Shared = false
			var why string
			if mark, why = alone.ours(); why != "" {
				return rest(resource.Conflict, why, s.soon()).with(s.ready())
			}
		}
	}
	switch {
	case s.IDTaken != nil:
		return s.taken(s.IDTaken)
	case place != "" && !s.IDReserved:
		return Step{Do: ReserveID, Ref: place}
	}
	return s.record(func(b *binding.BindingSpec) { b.Shared, b.Mark = false, mark })
}
