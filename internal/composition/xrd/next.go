package xrd

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
)

// Lengths of what a revision carries of its hash.
const (
	hashInLabel = 63
	hashInName  = 7
)

// Next is what has to be written so that a composition's newest revision is what the
// composition is; the zero Next is nothing.
type Next struct {
	// Create is a revision that isn't there yet.
	Create *v1.CompositionRevision
	// Renumber is one that is there and has to be the newest again, with its new number:
	// the composition has become what it once was.
	Renumber *v1.CompositionRevision
}

// NextRevision says what to write after a change of a composition, given its revisions;
// those of other compositions are left out of account.
func NextRevision(c *v1.Composition, existing []*v1.CompositionRevision) Next {
	hash := Hash(c)
	var latest, same *v1.CompositionRevision
	often := map[int64]int{} // how many have a number: two, where two programs were at it
	for _, r := range existing {
		if r.Labels[v1.CompositionNameLabel] != c.Name {
			continue
		}
		often[r.Spec.Revision]++
		if latest == nil || newer(r, latest) > 0 {
			latest = r
		}
		if r.Labels[v1.CompositionHashLabel] == hash && (same == nil || newer(r, same) > 0) {
			same = r
		}
	}
	number := int64(1)
	if latest != nil {
		number = latest.Spec.Revision + 1
	}
	switch {
	case same == nil:
		return Next{Create: revisionOf(c, hash, number)}
	case same != latest || often[same.Spec.Revision] > 1:
		again := same.DeepCopy()
		again.Spec.Revision = number
		return Next{Renumber: again}
	}
	return Next{}
}

// Hash tells apart what a composition is at different times: its labels, annotations and
// spec. It is the value of a revision's label, and the same that the dialect's other
// implementation would put there, so that a cluster with revisions of that one gets no
// second set.
func Hash(c *v1.Composition) string {
	var all []byte
	for _, part := range []any{c.Labels, own(c.Annotations), c.Spec} {
		text, err := yaml.Marshal(part)
		if err != nil {
			return "unknown" // can't be: maps of strings, and what was decoded from JSON
		}
		all = append(all, text...)
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:])[:hashInLabel]
}

// own are a composition's annotations without what an import has put there: it leaves the
// composition what it was, and so must its hash, or each import would make revisions that
// composites move to.
func own(annotations map[string]string) map[string]string {
	if _, imported := annotations[espalier.ImportAnnotation]; !imported {
		return annotations
	}
	if len(annotations) == 1 {
		return nil
	}
	out := maps.Clone(annotations)
	delete(out, espalier.ImportAnnotation)
	return out
}

func revisionOf(c *v1.Composition, hash string, number int64) *v1.CompositionRevision {
	c = c.DeepCopy()
	out := &v1.CompositionRevision{
		TypeMeta: metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.CompositionRevisionKind},
		ObjectMeta: metav1.ObjectMeta{
			Name:            c.Name + "-" + hash[:hashInName],
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
