package operation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// resolveImported finds out the outcome of an operation that an import has restored, by observing the external
// resource. The call is never made again, and the operation is not polled: request and tokens come from an archive that
// another user may have written. The operation is closed once no late call can arrive any more; what is still missing
// then is a new operation, computed from the managed resource.
func (s State) resolveImported() Step {
	if external.Verb(s.Binding.Operation.Verb) == external.Create {
		return s.resolveImportedCreate()
	}
	if step, done := s.observe(); done {
		return step
	}
	deletion := external.Verb(s.Binding.Operation.Verb) == external.Delete
	switch left := s.untilVisible(s.lastCall()) + arrivalTime; {
	case deletion && s.Observed.Presence == external.Absent:
		return s.updateBinding(func(b *binding.BindingSpec) { b.Operation = nil })
	case deletion && s.Observed.Presence == external.Deleting:
		return Step{
			Do: Finish, After: s.recheckInterval(), Ready: deletingCondition(s),
			Synced: syncedCondition(metav1.ConditionUnknown, resource.OperationInProgress, "deleting the external resource: "+s.Observed.State),
		}
	case left > 0:
		return s.awaitVisible(left)
	}
	return s.updateBinding(func(b *binding.BindingSpec) { b.Operation, b.Phase = nil, binding.BindingBound })
}

// resolveImportedCreate looks for the external resource by its name, its identity or its mark. Where none of them shows
// whether it exists, a user decides.
func (s State) resolveImportedCreate() Step {
	ref := s.ref()
	switch {
	case ref == "":
		return s.resolveByMark()
	case s.Caps.Naming == external.ProviderAssigned && s.Binding.Ref == "" && s.Binding.Operation.Ref == "":
		return s.resolveByAnnotation(ref)
	}
	if step, done := s.observe(); done {
		return step
	}
	switch s.Observed.Presence {
	case external.Deleting:
		return finish(resource.NameDeleting, "the external resource of this name is being deleted", s.recheckInterval())
	case external.Present:
		if _, conflict := s.checkOwnership(); conflict != "" && s.Caps.Naming == external.ProviderAssigned {
			return s.unresolved(conflict)
		}
		return s.adopt()
	default:
	}
	if left := s.untilVisible(s.lastCall()) + arrivalTime; left > 0 {
		return s.awaitVisible(left)
	}
	switch {
	case s.Caps.Naming == external.CallerAssigned:
		return s.closeWithoutEffect()
	case s.Caps.Findable:
		return s.resolveByMark()
	}
	return s.unresolved(fmt.Sprintf("the external resource %s does not exist", ref))
}
