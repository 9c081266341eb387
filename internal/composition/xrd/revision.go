package xrd

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
)

// RevisionChoice is the revision that an instance is to be composed by.
type RevisionChoice struct {
	// Name is that of the revision; it is set even if there is none of the name.
	Name string
	Why  Why
	// Revision is nil if there is something in the way.
	Revision *v1.CompositionRevision
	// Lack says what is in the way; "" if nothing is.
	Lack Lack
}

// String says it to people.
func (c RevisionChoice) String() string {
	switch c.Lack {
	case Missing:
		return fmt.Sprintf("there is no revision %s, and the instance stays with it", c.Name)
	case Incompatible:
		return fmt.Sprintf("revision %s is for another kind", c.Name)
	case NoneYet:
		return "the composition has no revision yet"
	case NoneMatches:
		return "no revision of the composition has the labels that are asked for"
	case Unselectable:
		return "the definition's default revision selector makes no sense"
	}
	return fmt.Sprintf("revision %s (%s)", c.Name, c.Why)
}

// Revision chooses the revision of a composition that an instance is composed by. One
// whose policy is Manual stays with the revision that it names. Otherwise it is the
// newest of those that have the labels that the instance asks for, or that the
// definition asks for on its behalf; one that is Manual and names none yet starts with
// the newest of all. The order of the revisions makes no difference.
func Revision(revisions []*v1.CompositionRevision, composition string, i Instance, d *v1.CompositeResourceDefinition) RevisionChoice {
	manual := i.UpdatePolicy() == v1.UpdateManual
	if name := i.Revision(); manual && name != "" {
		return staying(revisions, name, d)
	}
	wanted := labels.Everything()
	if !manual {
		var err error
		if wanted, err = following(i, d); err != nil {
			return RevisionChoice{Why: Latest, Lack: Unselectable}
		}
	}
	var best *v1.CompositionRevision
	lack := NoneYet
	for _, r := range revisions {
		if r.Labels[v1.CompositionNameLabel] != composition || !revisionIsFor(r, d) {
			continue
		}
		if lack = NoneMatches; !wanted.Matches(labels.Set(r.Labels)) {
			continue
		}
		if best == nil || newer(r, best) > 0 {
			best = r
		}
	}
	if best == nil {
		return RevisionChoice{Why: Latest, Lack: lack}
	}
	return RevisionChoice{Name: best.Name, Why: Latest, Revision: best}
}

// staying is the revision that an instance names.
func staying(revisions []*v1.CompositionRevision, name string, d *v1.CompositeResourceDefinition) RevisionChoice {
	out := RevisionChoice{Name: name, Why: Referenced}
	at := slices.IndexFunc(revisions, func(r *v1.CompositionRevision) bool { return r.Name == name })
	switch {
	case at < 0:
		out.Lack = Missing
	case !revisionIsFor(revisions[at], d):
		out.Lack = Incompatible
	default:
		out.Revision = revisions[at]
	}
	return out
}

// following selects the revisions that an instance follows.
func following(i Instance, d *v1.CompositeResourceDefinition) (labels.Selector, error) {
	if match, selects := i.RevisionSelector(); selects {
		return labels.SelectorFromValidatedSet(match), nil
	}
	if d.Spec.DefaultCompositionRevisionSelector != nil {
		return metav1.LabelSelectorAsSelector(d.Spec.DefaultCompositionRevisionSelector)
	}
	return labels.Everything(), nil
}

// DefaultRevisionSelector are the labels of revisions by which an instance is to say that it
// follows them, since its definition says so for those that say nothing. An instance has
// room for labels alone; a definition that selects otherwise is followed without a word.
func DefaultRevisionSelector(i Instance, d *v1.CompositeResourceDefinition) (labels map[string]string, applies bool) {
	s := d.Spec.DefaultCompositionRevisionSelector
	if _, selects := i.RevisionSelector(); selects || s == nil || len(s.MatchLabels) == 0 || len(s.MatchExpressions) > 0 {
		return nil, false
	}
	return s.MatchLabels, true
}

func revisionIsFor(r *v1.CompositionRevision, d *v1.CompositeResourceDefinition) bool {
	return r.Spec.CompositeTypeRef == v1.TypeReferenceTo(d.CompositeKind())
}

// newer compares revisions by number; by name where a crash has left two of one number.
func newer(a, b *v1.CompositionRevision) int {
	return cmp.Or(cmp.Compare(a.Spec.Revision, b.Spec.Revision), cmp.Compare(b.Name, a.Name))
}
