package operation

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// mayHaveLostBinding reports whether a binding without any attempt may replace one that was
// lost. With names that we choose, observing the name shows that. Otherwise a search for the
// owner on marks does, where the API has one.
func (s State) mayHaveLostBinding() bool {
	return s.isFindableByOwner() && !s.noneOwned()
}

func (s State) isFindableByOwner() bool {
	return s.Caps.Naming == external.ProviderAssigned && s.Caps.Findable && s.Binding.Attempts == 0
}

func (s State) noneOwned() bool { return s.SearchedByOwner && len(s.owned()) == 0 }

// None of them is being deleted: one that is belongs to a former incarnation of the managed resource.
func (s State) owned() []external.Observation {
	return slices.DeleteFunc(slices.Clone(s.FoundByOwner), func(o external.Observation) bool {
		return o.Presence != external.Present || o.Mark == nil || o.Mark.Owner != s.MarkOwner
	})
}

// recoverBinding searches, before anything is created, for the external resource of a lost
// binding, and binds it with the mark that it carries.
func (s State) recoverBinding() Step {
	creating := Condition{Status: metav1.ConditionFalse, Reason: resource.Creating}
	if s.ObserveErr != nil {
		return Failure(fmt.Errorf("search for an external resource of this object before one is created: %w", s.ObserveErr)).with(creating)
	}
	if !s.SearchedByOwner {
		return Step{Do: FindByOwner}
	}
	found := s.owned()
	if len(found) > 1 {
		return finish(resource.Conflict, fmt.Sprintf("%d external resources name this object as their owner: %s. None is created or deleted; name the right one with the annotation %s, or remove the mark from the others",
			len(found), joinRefs(found), resource.ExternalNameAnnotation), s.recheckInterval()).with(creating)
	}
	if denied := found[0].AdoptionDenied; denied != "" {
		// A user who can write tags of the external API can write an owner into them.
		return finish(resource.NotAllowed, fmt.Sprintf("the external resource %s names this object as its owner, and nothing else shows that it belongs to it: %s", found[0].Ref, denied), recheckNotAllowed).with(creating)
	}
	return s.bind(found[0].Ref, found[0].Mark.ID)
}
