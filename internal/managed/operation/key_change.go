package operation

import (
	"fmt"
	"time"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// isKeyChanged reports whether the external resource would have another key now. A name that
// comes from the annotation alone does not count: the annotation is set back.
func (s State) isKeyChanged() bool {
	k := s.reservedKey()
	renamed := s.Caps.Naming == external.CallerAssigned && s.DesiredKey.Name != "" && s.DesiredKey.Name != k.Name && s.DesiredKey.Name != s.DesiredKeyAnnotation
	return k.Scope != s.DesiredKey.Scope || k.Type != s.DesiredKey.Type || renamed
}

// mayCall reports whether this reconcile may call the external API. It does not if the
// external resource is only orphaned.
func (s State) mayCall() bool {
	b := s.Binding
	switch {
	case b.Operation != nil:
		return true
	case !s.Resource.HasFinalizer:
		return false
	case !s.Resource.Deleting:
		return true
	case len(s.Resource.OtherFinalizers) > 0 || b.Phase == binding.BindingTombstone || b.Phase == binding.BindingReleased:
		return false
	case b.Doubted != nil && s.mayDuplicate():
		return true
	}
	neverCreated := b.Phase == binding.BindingReserved && b.Ref == "" && !b.Explicit
	return s.Resource.DeletesExternal && !neverCreated
}

// handleKeyChange decides about a key that is no longer the bound one. The client is
// connected to another place: what it observes there says nothing about the bound external
// resource, so nothing is created or deleted there. A lost annotation is set back first.
func (s State) handleKeyChange() Step {
	b := s.Binding
	switch {
	case b.Ref != "" && s.Resource.ExternalName == "" && !s.ExternalNameSet:
		return s.setExternalName()
	case s.DesiredKeyAnnotation != s.Resource.ExternalName:
		return Step{Do: Finish, After: time.Second} // the next reconcile derives the key from the annotation
	}
	return finish(resource.Conflict, fmt.Sprintf("the object is bound to %s %q in %s and cannot be moved to %s %q in %s. Revert the change, or create another object",
		b.Key.Type, b.Key.Name, b.Key.Scope, s.DesiredKey.Type, s.DesiredKey.Name, s.DesiredKey.Scope), 0)
}
