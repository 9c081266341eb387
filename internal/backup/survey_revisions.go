package backup

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// surveyNewRevision checks a revision that an import would create. Instances follow the revisions
// of a composition or definition: one that exists gets only revisions that none of them would
// follow instead of an existing revision.
func (i *Import) surveyNewRevision(ctx context.Context, s *survey, o *unstructured.Unstructured) error {
	if err := i.readRevisions(ctx, s); err != nil {
		return err
	}
	of := archive.RevisedBy(o)
	var existing []*unstructured.Unstructured
	for _, live := range s.revisions[of] {
		if !archive.CreatedBy(live, s.hold) {
			existing = append(existing, live)
		}
	}
	if len(existing) > 0 {
		if why := archive.NewRevisionProblem(o, existing, s.numbers); why != "" {
			s.problem("%s of %s cannot be created: %s", object.KeyOf(o), of, why)
		}
		return nil
	}
	live, err := i.get(ctx, s.revised[of], of.Namespace, of.Name)
	if err != nil && !isUnserved(err) {
		return err
	}
	switch {
	case live == nil || archive.CreatedBy(live, s.hold):
	case live.GetDeletionTimestamp() != nil:
		s.problem("%s of %s cannot be created: that is being deleted: wait until it is gone", object.KeyOf(o), of)
	default:
		s.problem("%s of %s cannot be created: that exists without a revision; wait until the controllers have created one", object.KeyOf(o), of)
	}
	return nil
}

// surveyNumber decides whether an existing revision of a composition needs a higher number, so
// that no imported revision is newer. It never makes another revision the newest.
func (i *Import) surveyNumber(ctx context.Context, s *survey, section archive.Section, o, live *unstructured.Unstructured) error {
	if !archive.IsRenumbered(o.GroupVersionKind().GroupKind()) || archive.Number(live) >= archive.Number(o) {
		s.add(Keep, section, o)
		return nil
	}
	if err := i.readRevisions(ctx, s); err != nil {
		return err
	}
	for _, r := range s.revisions[archive.RevisedBy(live)] {
		if r.GetUID() != live.GetUID() && archive.Number(r) >= archive.Number(live) {
			s.problem("%s exists and differs in spec.revision, and %s is newer; an import overwrites nothing", object.KeyOf(o), r.GetName())
			return nil
		}
	}
	s.add(Renumber, section, o)
	return nil
}

// readRevisions reads the existing revisions, once, and indexes those of the archive.
func (i *Import) readRevisions(ctx context.Context, s *survey) error {
	if s.revisions != nil {
		return nil
	}
	revisions := map[object.Key][]*unstructured.Unstructured{}
	for _, gvk := range []schema.GroupVersionKind{revisionKind, graphRevisionKind} {
		found, err := i.allIfServed(ctx, gvk)
		if err != nil {
			return err
		}
		for _, r := range found {
			of := archive.RevisedBy(r)
			revisions[of] = append(revisions[of], r)
		}
	}
	s.revisions, s.numbers, s.revised = revisions, map[object.Key]int64{}, map[object.Key]schema.GroupVersionKind{}
	for _, r := range i.File.Sections[archive.Revisions] {
		s.numbers[object.KeyOf(r)] = archive.Number(r)
	}
	for _, section := range []archive.Section{archive.Compositions, archive.Definitions} {
		for _, o := range i.File.Sections[section] {
			s.revised[object.KeyOf(o)] = o.GroupVersionKind()
		}
	}
	return nil
}
