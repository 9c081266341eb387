package operation

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// checkDisagreement searches for a bound external resource that Observe reports as absent,
// before it is created again. If the search finds it, the two answers contradict each
// other. Either the found resource would be bound again, or a second one would be created
// beside it, so nothing is created.
func (s State) checkDisagreement() (step Step, done bool) {
	if !s.Caps.Findable {
		return Step{}, false
	}
	found := s.FoundByMark
	switch {
	case s.isFindableByOwner() && !s.SearchedByOwner:
		return Step{Do: FindByOwner}, true // such a resource was, or would be, bound by this search
	case s.isFindableByOwner():
		found = s.owned()
	case !s.SearchedByMark:
		return Step{Do: FindByMark}, true
	}
	isBound := func(o external.Observation) bool {
		return o.Presence == external.Present && o.Ref == external.Ref(s.Binding.Ref)
	}
	if !slices.ContainsFunc(found, isBound) {
		return Step{}, false
	}
	step = Failure(fmt.Errorf("the external API finds %s by its mark, and reports it as absent by its identity; it is not created again until both answers agree. If this lasts, the search may return another identity than Observe expects", s.Binding.Ref))
	step.Synced.Reason, step.After = resource.Disagreement, s.recheckInterval()
	return step.with(Condition{Status: metav1.ConditionFalse, Reason: resource.Unavailable}), true
}
