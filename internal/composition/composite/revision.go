package composite

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/kube"
)

// LiveReader reads objects from the API server.
type LiveReader interface {
	Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
}

var revisionKind = v1.GroupVersion.WithKind(v1.CompositionRevisionKind)

// selectRevision selects the revision of the composition. If the snapshot lacks the revision that the composite
// references, and another would be selected, it reads the former: the watch of revisions may be behind the watch of
// composites, after a former leader updated one, or a restore of both. An older revision would delete what only the
// newer one composes.
func (s *compositeState) selectRevision(ctx context.Context, composition string) (xrd.RevisionChoice, error) {
	chosen := xrd.SelectRevision(s.Revisions, composition, s.xr, s.Definition)
	current := s.xr.RevisionName()
	isKnown := slices.ContainsFunc(s.Revisions, func(r *v1.CompositionRevision) bool { return r.Name == current })
	if s.Cluster == nil || chosen.Revision == nil || current == "" || isKnown {
		return chosen, nil
	}
	live, err := s.Cluster.Get(ctx, revisionKind, "", current)
	if kube.IsObjectNotFound(err, current) {
		return chosen, nil
	}
	if err != nil {
		return chosen, fmt.Errorf("read CompositionRevision %s: %w", current, err)
	}
	one := &v1.CompositionRevision{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, one) != nil {
		return chosen, nil // the snapshot lacks it, and will
	}
	return xrd.SelectRevision(append(slices.Clone(s.Revisions), one), composition, s.xr, s.Definition), nil
}
