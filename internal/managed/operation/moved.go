package operation

import (
	"fmt"
	"time"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// moved says that the resource would be kept under another key now. A name that
// comes of the annotation alone doesn't count: that is put back.
func (s State) moved() bool {
	k := s.key()
	renamed := s.Caps.Naming == external.CallerAssigned && s.Key.Name != "" && s.Key.Name != k.Name && s.Key.Name != s.KeyFrom
	return k.Scope != s.Key.Scope || k.Type != s.Key.Type || renamed
}

// asks says that something may be asked of the external API before the pass rests:
// not of what is only let go of.
func (s State) asks() bool {
	b := s.Binding
	switch {
	case b.Operation != nil:
		return true
	case !s.Resource.Claimed:
		return false
	case !s.Resource.Deleting:
		return true
	case len(s.Resource.KeptBy) > 0 || b.Phase == binding.BindingTombstone || b.Phase == binding.BindingReleased:
		return false
	case b.Doubted != nil && s.mayDouble():
		return true
	}
	never := b.Phase == binding.BindingReserved && b.Ref == "" && !b.Explicit
	return s.Resource.Deletes && !never
}

// elsewhere is about a key that isn't the bound one any more. The client that is
// connected looks at another place: what is there, or isn't, says nothing about ours,
// and it is neither made there nor deleted. A lost annotation is put back first.
func (s State) elsewhere() Step {
	b := s.Binding
	switch {
	case b.Ref != "" && s.Resource.ExternalName == "" && !s.Projected:
		return s.project()
	case s.KeyFrom != s.Resource.ExternalName:
		return Step{Do: Rest, After: time.Second} // the next pass makes the key of that
	}
	return rest(resource.Conflict, fmt.Sprintf("this is bound to %s %q in %s; it can't become %s %q in %s. Set back what was changed, or make another object",
		b.Key.Type, b.Key.Name, b.Key.Scope, s.Key.Type, s.Key.Name, s.Key.Scope), 0)
}
