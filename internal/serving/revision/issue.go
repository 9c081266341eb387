package revision

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// BelongsTo says whether a revision is of a definition, in whatever incarnation.
func BelongsTo(r *rev.GraphRevision, d object.Definition) bool {
	return r.Spec.Snapshot.Name == d.Name && r.Spec.Snapshot.Namespace == d.Namespace
}

// Sort brings the revisions of a definition into the order of their numbers; by name where
// somebody has made two of one number.
func Sort(all []*rev.GraphRevision) {
	slices.SortFunc(all, func(a, b *rev.GraphRevision) int {
		return cmp.Or(cmp.Compare(a.Spec.Revision, b.Spec.Revision), cmp.Compare(a.Name, b.Name))
	})
}

// Newest is the newest of sorted revisions that isn't being deleted; nil if there is none.
func Newest(all []*rev.GraphRevision) *rev.GraphRevision {
	for _, r := range slices.Backward(all) {
		if r.DeletionTimestamp == nil {
			return r
		}
	}
	return nil
}

// Numbered is the revision of a number; nil if there is none.
func Numbered(all []*rev.GraphRevision, number int64) *rev.GraphRevision {
	at := slices.IndexFunc(all, func(r *rev.GraphRevision) bool { return r.Spec.Revision == number })
	if at < 0 {
		return nil
	}
	return all[at]
}

// Current is the newest revision, if it has the hash that the definition has; otherwise nil.
// The hash of a revision is that of its content: its label is for people, and another
// implementation of the dialect writes another.
func Current(all []*rev.GraphRevision, hash string, hashOf func(*rev.GraphRevision) string) *rev.GraphRevision {
	if newest := Newest(all); newest != nil && hashOf(newest) == hash {
		return newest
	}
	return nil
}

// Next is the number of the revision that comes next. No number is given twice, also where
// the one that had it is gone: issued is the last that is known to have been.
func Next(all []*rev.GraphRevision, issued int64) int64 {
	for _, r := range all {
		issued = max(issued, r.Spec.Revision)
	}
	return issued + 1
}

// Make makes the revision of a definition as it is. A definition without a namespace
// controls it, so that the garbage collector takes the one with the other; one with a
// namespace can't control what is in none.
func Make(d object.Definition, spec *v1alpha1.DefinitionSpec, generation, number int64, version string) *rev.GraphRevision {
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
		}},
	}
	if owner, controls := OwnerReference(d); controls {
		out.OwnerReferences = []metav1.OwnerReference{owner}
	}
	return out
}

// OwnerReference is how a revision names the definition that controls it, if that can.
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

// Limit is how many revisions are kept beside those that are in use.
func Limit(spec *v1alpha1.DefinitionSpec) int {
	if spec.RevisionHistoryLimit != nil {
		return max(1, int(*spec.RevisionHistoryLimit))
	}
	return DefaultLimit
}

// DefaultLimit is how many revisions are kept where the definition doesn't say.
const DefaultLimit = 5

// Surplus are those of sorted revisions that needn't be kept: all but the newest, and but
// those that are in use. One that is being deleted already isn't among them, and takes
// nobody's place.
func Surplus(all []*rev.GraphRevision, limit int, used map[int64]bool) []*rev.GraphRevision {
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
