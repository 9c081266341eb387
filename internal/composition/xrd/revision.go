package xrd

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/condition"
)

// RevisionChoice is the result of the selection of a revision for an instance.
type RevisionChoice struct {
	// Name is the revision's name; it is set even if the revision doesn't exist.
	Name       string
	SelectedBy SelectedBy
	// Revision is nil if there is a problem.
	Revision *v1.CompositionRevision
	// Problem is why there is no revision; "" if there is one.
	Problem Problem
	// Enforced is the enforced composition that an incompatible revision is not of.
	Enforced string
	// Invalid is the newest revision, if it is passed over because its pipeline is invalid.
	Invalid *v1.CompositionRevision
}

// String is a message about the choice.
func (c RevisionChoice) String() string {
	switch c.Problem {
	case Missing:
		return fmt.Sprintf("revision %s, to which compositionUpdatePolicy: Manual pins the instance, does not exist", c.Name)
	case Incompatible:
		if c.Enforced != "" {
			return fmt.Sprintf("revision %s is of another composition than %s, which the definition enforces; name one of its revisions in compositionRevisionRef", c.Name, c.Enforced)
		}
		return fmt.Sprintf("revision %s is for another kind", c.Name)
	case NoRevision:
		return "the composition has no revision yet"
	case NoMatch:
		return "no revision of the composition matches the selector"
	case InvalidSelector:
		return "the definition's spec.defaultCompositionRevisionSelector is invalid"
	}
	return fmt.Sprintf("revision %s (%s)", c.Name, c.SelectedBy)
}

// SelectRevision selects the revision of a composition for an instance. An instance with the
// policy Manual is pinned to the revision that it references, of any composition unless the
// definition enforces one; if it references none yet, it gets the newest of all. Otherwise it is the newest revision that the instance's selector
// matches, or the definition's default selector. Revisions with an invalid pipeline are passed over while there is a valid one, and so are
// those that are not checked yet, unless the instance references one. Annotations of the composition can ask for a rollout or a rollback, which
// then assigns a revision to each instance that selects none. The result doesn't depend on the order of the revisions.
func SelectRevision(revisions []*v1.CompositionRevision, c *v1.Composition, i Instance, d *v1.CompositeResourceDefinition) RevisionChoice {
	manual := i.UpdatePolicy() == v1.UpdateManual
	if name := i.RevisionName(); manual && name != "" {
		return pinnedRevision(revisions, name, d)
	}
	if one, isAssigned := assignedRevision(c, revisions, i, d); isAssigned && revisionIsForKind(one, d) {
		return RevisionChoice{Name: one.Name, SelectedBy: Assigned, Revision: one}
	}
	wanted := labels.Everything()
	if !manual {
		var err error
		if wanted, err = revisionSelector(i, d); err != nil {
			return RevisionChoice{SelectedBy: Latest, Problem: InvalidSelector}
		}
	}
	var best, newest *v1.CompositionRevision
	problem := NoRevision
	for _, r := range revisions {
		if r.Labels[v1.CompositionNameLabel] != c.Name || !revisionIsForKind(r, d) {
			continue
		}
		if problem = NoMatch; !wanted.Matches(labels.Set(r.Labels)) {
			continue
		}
		if newest == nil || compareRevisions(r, newest) > 0 {
			newest = r
		}
		if best == nil || cmp.Or(cmp.Compare(validity(r, i), validity(best, i)), compareRevisions(r, best)) > 0 {
			best = r
		}
	}
	if best == nil {
		return RevisionChoice{SelectedBy: Latest, Problem: problem}
	}
	out := RevisionChoice{Name: best.Name, SelectedBy: Latest, Revision: best}
	if newest != best && isInvalid(newest) {
		out.Invalid = newest
	}
	return out
}

// InvalidPipeline is the reason of the condition ValidPipeline of a revision whose pipeline fails for every composite. Crossplane has no such
// reason.
const InvalidPipeline = "InvalidPipeline"

func isInvalid(r *v1.CompositionRevision) bool {
	c, _ := condition.Set(r.Status.Conditions).Get(v1.TypeValidPipeline)
	return c.Status == metav1.ConditionFalse && c.Reason == InvalidPipeline
}

// validity ranks revisions: a revision that is not checked yet is between the valid and the invalid ones. The revision that an instance
// references counts as valid until it is checked: after a restore or a takeover, an older one may be checked first.
func validity(r *v1.CompositionRevision, i Instance) int {
	_, isChecked := condition.Set(r.Status.Conditions).Get(v1.TypeValidPipeline)
	switch {
	case isInvalid(r):
		return 0
	case !isChecked && r.Name != i.RevisionName():
		return 1
	}
	return 2
}

func pinnedRevision(revisions []*v1.CompositionRevision, name string, d *v1.CompositeResourceDefinition) RevisionChoice {
	out := RevisionChoice{Name: name, SelectedBy: Referenced}
	at := slices.IndexFunc(revisions, func(r *v1.CompositionRevision) bool { return r.Name == name })
	switch {
	case at < 0:
		out.Problem = Missing
	case !revisionIsForKind(revisions[at], d):
		out.Problem = Incompatible
	case d.Spec.EnforcedCompositionRef != nil && revisions[at].Labels[v1.CompositionNameLabel] != d.Spec.EnforcedCompositionRef.Name:
		out.Problem, out.Enforced = Incompatible, d.Spec.EnforcedCompositionRef.Name
	default:
		out.Revision = revisions[at]
	}
	return out
}

func revisionSelector(i Instance, d *v1.CompositeResourceDefinition) (labels.Selector, error) {
	if match, selects := i.RevisionSelector(); selects {
		return labels.SelectorFromValidatedSet(match), nil
	}
	if d.Spec.DefaultCompositionRevisionSelector != nil {
		return metav1.LabelSelectorAsSelector(d.Spec.DefaultCompositionRevisionSelector)
	}
	return labels.Everything(), nil
}

// DefaultRevisionSelector are the labels of the definition's default revision selector, to be
// written to an instance that has no selector. An instance's selector only has labels: a
// default selector with expressions is used without being written.
func DefaultRevisionSelector(i Instance, d *v1.CompositeResourceDefinition) (labels map[string]string, applies bool) {
	s := d.Spec.DefaultCompositionRevisionSelector
	if _, selects := i.RevisionSelector(); selects || s == nil || len(s.MatchLabels) == 0 || len(s.MatchExpressions) > 0 {
		return nil, false
	}
	return s.MatchLabels, true
}

func revisionIsForKind(r *v1.CompositionRevision, d *v1.CompositeResourceDefinition) bool {
	return r.Spec.CompositeTypeRef == v1.TypeReferenceTo(d.CompositeKind())
}

// compareRevisions compares revisions by number, and by name if a crash left two with the
// same number.
func compareRevisions(a, b *v1.CompositionRevision) int {
	return cmp.Or(cmp.Compare(a.Spec.Revision, b.Spec.Revision), cmp.Compare(b.Name, a.Name))
}
