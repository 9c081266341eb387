package operation

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// mayBeLost says that a binding which has asked for nothing yet may stand in for one
// that was lost with all that it knew. Where the name is ours, the look at it tells;
// otherwise what carries our owner's text does, where that can be searched.
func (s State) mayBeLost() bool {
	return s.traceable() && !s.foundNone()
}

// traceable says that what carries our owner's text would be bound, if there is any.
func (s State) traceable() bool {
	return s.Caps.Naming == external.ProviderAssigned && s.Caps.Findable && s.Binding.Attempts == 0
}

func (s State) foundNone() bool { return s.Traced && len(s.traces()) == 0 }

// traces are those that are found and not on their way out: a resource that is being
// deleted is a former incarnation's.
func (s State) traces() []external.Observation {
	return slices.DeleteFunc(slices.Clone(s.Traces), func(o external.Observation) bool {
		return o.Presence != external.Present || o.Mark == nil || o.Mark.Owner != s.MarkOwner
	})
}

// trace looks for what a lost binding has made, before anything is created, and
// binds it with the mark that it carries.
func (s State) trace() Step {
	creating := Said{Status: metav1.ConditionFalse, Reason: resource.Creating}
	if s.LookFailed != nil {
		return Fails(fmt.Errorf("look for an external resource of a lost binding: %w", s.LookFailed)).with(creating)
	}
	if !s.Traced {
		return Step{Do: Trace}
	}
	found := s.traces()
	if len(found) > 1 {
		return rest(resource.Conflict, fmt.Sprintf("%d external resources name this one as their owner: %s. None is made or deleted; say which it is with the annotation %s, or take the mark off the others",
			len(found), refs(found), resource.ExternalNameAnnotation), s.soon()).with(creating)
	}
	return s.bind(found[0].Ref, found[0].Mark.ID)
}
