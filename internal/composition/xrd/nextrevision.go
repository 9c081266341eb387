package xrd

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Lengths of the hash in a revision's label and name.
const (
	hashLabelLength = 63
	hashNameLength  = 7
)

// RevisionChange is the write that makes a composition's newest revision equal to the
// composition. The zero RevisionChange is no write.
type RevisionChange struct {
	// Create is a revision to create.
	Create *v1.CompositionRevision
	// Renumber is an existing revision with its new number: the composition equals that
	// older revision again, which becomes the newest.
	Renumber *v1.CompositionRevision
}

// NextRevision computes the write after a change of a composition. Revisions of other
// compositions are ignored.
func NextRevision(c *v1.Composition, existing []*v1.CompositionRevision) RevisionChange {
	hash := Hash(c)
	var latest, same *v1.CompositionRevision
	count := map[int64]int{} // revisions by number; two programs may have used one number
	for _, r := range existing {
		if r.Labels[v1.CompositionNameLabel] != c.Name {
			continue
		}
		count[r.Spec.Revision]++
		if latest == nil || compareRevisions(r, latest) > 0 {
			latest = r
		}
		if r.Labels[v1.CompositionHashLabel] == hash && (same == nil || compareRevisions(r, same) > 0) {
			same = r
		}
	}
	number := int64(1)
	if latest != nil {
		number = latest.Spec.Revision + 1
	}
	switch {
	case same == nil:
		return RevisionChange{Create: revisionOf(c, hash, number)}
	case same != latest || count[same.Spec.Revision] > 1:
		renumbered := same.DeepCopy()
		renumbered.Spec.Revision = number
		return RevisionChange{Renumber: renumbered}
	}
	return RevisionChange{}
}

// Hash is the hash of a composition's labels, annotations and spec. It is the value of a revision's label and equals
// the hash that Crossplane computes, so a cluster with revisions of Crossplane gets no second set.
func Hash(c *v1.Composition) string {
	var all []byte
	for _, part := range []any{c.Labels, contentAnnotations(c.Annotations), c.Spec} {
		text, err := yaml.Marshal(part)
		if err != nil {
			return "unknown" // impossible: maps of strings, and values decoded from JSON
		}
		all = append(all, text...)
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:])[:hashLabelLength]
}

// contentAnnotations are the annotations that belong to the content of a composition. An import must not change the hash: it
// would create revisions that composites move to. Nor must what decides about the use of revisions.
func contentAnnotations(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	for _, name := range []string{
		espalier.ImportAnnotation, v1alpha1.RolloutAnnotation, v1alpha1.RollbackAnnotation, v1alpha1.RollbackFromAnnotation,
	} {
		delete(out, name)
	}
	if len(out) == 0 && len(annotations) > 0 {
		return nil
	}
	return out
}

func revisionOf(c *v1.Composition, hash string, number int64) *v1.CompositionRevision {
	c = c.DeepCopy()
	out := &v1.CompositionRevision{
		TypeMeta: metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.CompositionRevisionKind},
		ObjectMeta: metav1.ObjectMeta{
			Name:            c.Name + "-" + hash[:hashNameLength],
			Labels:          map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, v1.GroupVersion.WithKind(v1.CompositionKind))},
		},
		Spec: v1.CompositionRevisionSpec{
			CompositeTypeRef: c.Spec.CompositeTypeRef, Mode: c.Spec.Mode, Pipeline: c.Spec.Pipeline,
			WriteConnectionSecretsToNamespace:          c.Spec.WriteConnectionSecretsToNamespace,
			PublishConnectionDetailsWithStoreConfigRef: c.Spec.PublishConnectionDetailsWithStoreConfigRef,
			Revision: number,
		},
	}
	maps.Copy(out.Labels, c.Labels)
	out.Labels[v1.CompositionNameLabel], out.Labels[v1.CompositionHashLabel] = c.Name, hash
	return out
}
