package operation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// The observed external resource belongs to the managed resource or may be adopted.
func (s State) adopt() Step {
	mark, conflict := s.checkOwnership()
	if conflict == "" {
		return s.bind(s.observedRef(), mark)
	}
	if s.Binding.Operation != nil {
		// Another owner's resource has the name, so the open creation had no effect.
		return s.updateBinding(func(b *binding.BindingSpec) { b.Operation, b.Phase = nil, binding.BindingReserved })
	}
	if s.isNamed() && conflict != s.Observed.AdoptionDenied && s.Observed.Mark == nil {
		return s.updateBinding(func(b *binding.BindingSpec) { b.Explicit = true })
	}
	if s.Binding.StaleName != "" {
		return s.refuse(conflict).with(Condition{Status: metav1.ConditionFalse, Reason: resource.Unavailable}) // it was ready
	}
	return s.refuse(conflict)
}

// isNamed reports whether the annotation names the reserved key and nothing has recorded it: it was set after the key was
// reserved, as the message of a conflict says.
func (s State) isNamed() bool {
	name := s.Resource.ExternalName
	return !s.Binding.Explicit && name != "" && !s.isStaleName() && name == s.DesiredKeyAnnotation && s.DesiredKey == s.reservedKey()
}

func (s State) refuse(conflict string) Step {
	if conflict == s.Observed.AdoptionDenied {
		return finish(resource.NotAllowed, conflict, recheckNotAllowed)
	}
	return finish(resource.Conflict, conflict, s.recheckInterval())
}

func (s State) namesAnother() bool {
	name := s.Resource.ExternalName
	return name != "" && name == s.DesiredKeyAnnotation && s.DesiredKey.Name != "" && s.DesiredKey != s.reservedKey()
}

// Owner returns the managed resource that the external resource of a binding belongs to; nil
// if it belongs to none: it is only shared, reserved and not bound yet, or left.
func Owner(b binding.BindingSpec) *external.Owner {
	if b.Shared || b.Ref == "" {
		return nil
	}
	switch b.Phase {
	case binding.BindingBound, binding.BindingUpdating, binding.BindingDeleting:
		return &external.Owner{APIVersion: b.Owner.APIVersion, Kind: b.Owner.Kind, Namespace: b.Owner.Namespace, Name: b.Owner.Name}
	default:
	}
	return nil
}

func (s State) observedRef() external.Ref {
	if s.Observed.Ref != "" {
		return s.Observed.Ref
	}
	return s.ref()
}

// mark proves that the observed external resource belongs to the managed resource; conflict is why it does not.
func (s State) checkOwnership() (mark, conflict string) {
	b, seen, denied := s.Binding, s.Observed.Mark, s.Observed.AdoptionDenied
	switch {
	case b.Shared && denied != "":
		return "", denied
	case b.Shared, s.mark().Is(seen):
		return b.Mark, ""
	case seen != nil && seen.Owner == s.MarkOwner:
		return seen.ID, "" // the binding with this mark was lost
	case denied != "" && (seen != nil || !s.isOpenCreation() || !s.appearedSinceFirstAttempt()):
		return "", denied // no message tells whose it is
	case seen != nil:
		return "", fmt.Sprintf("the external resource %s exists already and carries the mark of %s", s.observedRef(), s.foreignMark(seen))
	case s.appearedSinceFirstAttempt():
		return b.Mark, ""
	case b.Explicit, s.Resource.AdoptUnmarked:
		return b.Mark, ""
	case s.isStaleName():
		return "", fmt.Sprintf("the external resource %s exists already and nothing shows that it belongs to this object; it is not changed. To adopt it, set the annotation %s to %s",
			s.observedRef(), resource.AdoptAnnotation, resource.AdoptIfUnmarked)
	case s.namesAnother():
		return "", fmt.Sprintf("the external resource %s exists already and nothing shows that it belongs to this object; it is not changed. The annotation %s names %q, but %q is reserved for the object since its first reconcile. To manage another resource, create the object anew with the annotation",
			s.observedRef(), resource.ExternalNameAnnotation, s.Resource.ExternalName, b.Key.Name)
	}
	return "", fmt.Sprintf("the external resource %s exists already and nothing shows that it belongs to this object; it is not changed. To adopt it, set the annotation %s to its identity, or %s to %s",
		s.observedRef(), resource.ExternalNameAnnotation, resource.AdoptAnnotation, resource.AdoptIfUnmarked)
}

// The resources of the kind cannot carry marks. There was none with the key before the first attempt to create it, and
// there is one now.
func (s State) appearedSinceFirstAttempt() bool {
	b := s.Binding
	if s.Caps.Marked || b.AbsentBefore == nil || b.Attempts == 0 {
		return false
	}
	return s.Observed.Created.IsZero() || !s.Observed.Created.Before(b.AbsentBefore.Time)
}

// isOpenCreation reports whether a call may have created the observed external resource: it is neither
// known to have failed nor, where the API assigns identities, named by the user instead of the API.
func (s State) isOpenCreation() bool {
	op := s.Binding.Operation
	if op == nil || external.Verb(op.Verb) != external.Create {
		return false
	}
	if s.Caps.Naming == external.ProviderAssigned {
		return op.Ref != ""
	}
	return op.Failed == nil
}

func (s State) isForeign() bool {
	seen := s.Observed.Mark
	return !s.Binding.Shared && seen != nil && !s.mark().Is(seen) && seen.Owner != s.MarkOwner
}
