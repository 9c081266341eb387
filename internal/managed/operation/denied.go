package operation

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// disagrees looks whether a search shows what a look has denied, before something is
// made in place of what is bound. Which of them is right can't be told: what is found
// would be bound once more, or a second one made beside it.
func (s State) disagrees() (step Step, done bool) {
	if !s.Caps.Findable {
		return Step{}, false
	}
	found := s.Found
	switch {
	case s.traceable() && !s.Traced:
		return Step{Do: Trace}, true // it was bound by that, or would be next
	case s.traceable():
		found = s.traces()
	case !s.Searched:
		return Step{Do: Search}, true
	}
	shows := func(o external.Observation) bool {
		return o.Presence == external.Present && o.Ref == external.Ref(s.Binding.Ref)
	}
	if !slices.ContainsFunc(found, shows) {
		return Step{}, false
	}
	step = Fails(fmt.Errorf("the external API finds %s by its mark and, asked for it, says that there is none; none is made anew until it says the same both times. If that stays so, it may be found under another identity than it is looked at", s.Binding.Ref))
	step.Synced.Reason, step.After = resource.Disagreement, s.soon()
	return step.with(Said{Status: metav1.ConditionFalse, Reason: resource.Unavailable}), true
}
