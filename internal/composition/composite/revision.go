package composite

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

var revisionKind = v1.GroupVersion.WithKind(v1.CompositionRevisionKind)

// selectRevision selects the revision of the composition. If the snapshot lacks the revision that the composite
// references, and another would be selected, the former is needed: the watch of revisions may be behind the watch of
// composites, after a former leader updated one, or a restore of both. An older revision would delete what only the
// newer one composes. The choice is not known before the needed revision has been read.
func (s *compositeState) selectRevision(composition *v1.Composition) (choice xrd.RevisionChoice, known bool, err error) {
	chosen := xrd.SelectRevision(s.Revisions, composition, s.xr, s.Definition)
	current := s.xr.RevisionName()
	isKnown := slices.ContainsFunc(s.Revisions, func(r *v1.CompositionRevision) bool { return r.Name == current })
	if chosen.Revision == nil || current == "" || isKnown {
		return chosen, true, nil
	}
	live, known := s.lookup(plan.Need{Kind: revisionKind, Name: current, Live: true})
	switch {
	case !known:
		return chosen, false, nil
	case live.Unreadable != nil:
		return chosen, false, fmt.Errorf("read CompositionRevision %s: %s", current, live.Unreadable.Message)
	case live.Object == nil:
		return chosen, true, nil
	}
	one := &v1.CompositionRevision{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object.Object, one) != nil {
		return chosen, true, nil // the snapshot lacks it, and will
	}
	return xrd.SelectRevision(append(slices.Clone(s.Revisions), one), composition, s.xr, s.Definition), true, nil
}
