package revision

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// BelongsTo reports whether a revision is one of the definition, of any incarnation.
func BelongsTo(r *rev.GraphRevision, d object.Definition) bool {
	return r.Spec.Snapshot.Name == d.Name && r.Spec.Snapshot.Namespace == d.Namespace
}

// Sort sorts the revisions of a definition by number; by name if two have the same number, which
// only other writers create.
func Sort(all []*rev.GraphRevision) {
	slices.SortFunc(all, func(a, b *rev.GraphRevision) int {
		return cmp.Or(cmp.Compare(a.Spec.Revision, b.Spec.Revision), cmp.Compare(a.Name, b.Name))
	})
}

// Newest returns the newest of sorted revisions that isn't being deleted; nil if there is none.
func Newest(all []*rev.GraphRevision) *rev.GraphRevision {
	for _, r := range slices.Backward(all) {
		if r.DeletionTimestamp == nil {
			return r
		}
	}
	return nil
}

// FindNumber returns the revision with a number; nil if there is none.
func FindNumber(all []*rev.GraphRevision, number int64) *rev.GraphRevision {
	at := slices.IndexFunc(all, func(r *rev.GraphRevision) bool { return r.Spec.Revision == number })
	if at < 0 {
		return nil
	}
	return all[at]
}

// Current returns the newest revision if its content has the definition's hash and its account
// is the definition's; otherwise nil. A revision without an account is one of an earlier release,
// which did not record it. The hash is computed from the content of the revision: the label is for people, and another
// implementation of the dialect writes another value.
func Current(all []*rev.GraphRevision, hash, account string, hashOf func(*rev.GraphRevision) string) *rev.GraphRevision {
	newest := Newest(all)
	if newest == nil || hashOf(newest) != hash || newest.Spec.Account != "" && newest.Spec.Account != account {
		return nil
	}
	return newest
}

// Next is the number of the next revision. Issued is the last number that is known to have been
// used: no number is used twice, even if its revision is gone.
func Next(all []*rev.GraphRevision, issued int64) int64 {
	for _, r := range all {
		issued = max(issued, r.Spec.Revision)
	}
	return issued + 1
}

// New returns the revision of a definition; an account reconciles its instances. A cluster-scoped definition controls
// it, so the garbage collector deletes both; a namespaced one can't control a cluster-scoped object.
func New(d object.Definition, spec *v1alpha1.DefinitionSpec, account string, generation, number int64, version string) *rev.GraphRevision {
	labels := map[string]string{
		v1alpha1.OwnedLabel:          "true",
		v1alpha1.VersionLabel:        object.LabelValue(version),
		v1alpha1.DefinitionNameLabel: object.LabelValue(d.Name),
		rev.HashLabel:                Hash(spec),
	}
	if d.Namespace != "" {
		labels[v1alpha1.DefinitionNSLabel] = d.Namespace
	}
	out := &rev.GraphRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: rev.GroupVersion.String(), Kind: rev.GraphRevisionKind},
		ObjectMeta: metav1.ObjectMeta{Name: Name(d, number), Labels: labels, Finalizers: []string{v1alpha1.Finalizer}},
		Spec: rev.GraphRevisionSpec{Revision: number, Snapshot: rev.Snapshot{
			Name: d.Name, Namespace: d.Namespace, Generation: generation, Spec: *Content(spec),
		}, Account: account},
	}
	if owner, controls := OwnerReference(d); controls {
		out.OwnerReferences = []metav1.OwnerReference{owner}
	}
	return out
}

// OwnerReference is the reference of a revision to the definition that controls it, if the
// definition can.
func OwnerReference(d object.Definition) (owner metav1.OwnerReference, controls bool) {
	if d.Namespace != "" {
		return metav1.OwnerReference{}, false
	}
	yes, no := true, false
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.ResourceGraphDefinitionKind, Name: d.Name, UID: d.UID,
		Controller: &yes, BlockOwnerDeletion: &no,
	}, true
}

// HistoryLimit is how many of the newest revisions are kept. Older ones are kept while they are in use.
func HistoryLimit(spec *v1alpha1.DefinitionSpec) int {
	if spec.RevisionHistoryLimit != nil {
		return max(1, int(*spec.RevisionHistoryLimit))
	}
	return DefaultHistoryLimit
}

// DefaultHistoryLimit is the HistoryLimit of a definition that sets none.
const DefaultHistoryLimit = 5

// Prunable returns the sorted revisions that are to be deleted: all but the newest ones within the limit and the used
// ones. A revision that is being deleted is neither returned nor counted.
func Prunable(all []*rev.GraphRevision, limit int, used map[int64]bool) []*rev.GraphRevision {
	var out []*rev.GraphRevision
	for _, r := range slices.Backward(all) {
		switch {
		case r.DeletionTimestamp != nil:
		case limit > 0:
			limit--
		case !used[r.Spec.Revision]:
			out = append(out, r)
		}
	}
	slices.Reverse(out)
	return out
}
