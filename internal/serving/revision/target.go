package revision

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Reason is why a revision is the target.
type Reason string

// Reasons, which the definition's condition has too.
const (
	// Latest: no other revision is requested.
	Latest Reason = "Resolved"
	// Pinned: spec.revision requests it.
	Pinned Reason = "Pinned"
	// RolledBack: the definition's annotation requests it.
	RolledBack Reason = "RolledBack"
)

// Target is the revision that is to compose all instances in the end.
type Target struct {
	Number int64
	Reason Reason
	// Source names the field or annotation that requests the number; empty for the latest.
	Source string
	// Revision is nil if no revision has the number, or there is none at all.
	Revision *rev.GraphRevision
	// Problems are the problems of an invalid request; the definition's instances stay as they are then.
	Problems diag.List
}

// TargetOf selects one of sorted revisions: the one that an annotation rolls back to, or else
// the one that spec.revision names, or else the newest. A rollback overrides the spec: it is
// made in a hurry, and the tool that applies the spec may soon restore it.
func TargetOf(annotations map[string]string, spec *v1alpha1.DefinitionSpec, all []*rev.GraphRevision) Target {
	newest := Newest(all)
	var number int64
	if newest != nil {
		number = newest.Spec.Revision
	}
	if t, rolledBack := RollbackOf(annotations, number); rolledBack {
		t.Revision = FindNumber(all, t.Number)
		return t
	}
	if spec.Revision != nil {
		return Target{Number: *spec.Revision, Reason: Pinned, Source: "spec.revision", Revision: FindNumber(all, *spec.Revision)}
	}
	if newest == nil {
		return Target{Reason: Latest}
	}
	return Target{Number: newest.Spec.Revision, Reason: Latest, Revision: newest}
}

// RollbackOf is the target that annotations roll back to, without its revision. rolledBack is false if they do not, or if there is
// a newest revision after the one that the rollback is from.
func RollbackOf(annotations map[string]string, newest int64) (t Target, rolledBack bool) {
	to, given := annotations[v1alpha1.RollbackAnnotation]
	if !given {
		return Target{}, false
	}
	t = Target{Reason: RolledBack, Source: "annotation " + v1alpha1.RollbackAnnotation}
	t.Number = t.number(v1alpha1.RollbackAnnotation, to)
	var from int64
	if text, given := annotations[v1alpha1.RollbackFromAnnotation]; given {
		from = t.number(v1alpha1.RollbackFromAnnotation, text)
	}
	over := from > 0 && newest > from
	return t, len(t.Problems) > 0 || !over
}

func (t *Target) number(annotation, text string) int64 {
	n, err := ParseNumber(text)
	if err != nil {
		t.Problems.Addf(object.Path("metadata.annotations").Field(annotation), "%v", err)
	}
	return n
}

// ParseNumber parses a revision's number.
func ParseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("must be a revision number such as 3, not %q", diag.Truncate(text, 32))
	}
	return n, nil
}

// ListNumbers lists the numbers of revisions in text: "1, 2 and 5".
func ListNumbers(all []*rev.GraphRevision) string {
	var numbers []string
	for _, r := range all {
		if r.DeletionTimestamp == nil {
			numbers = append(numbers, strconv.FormatInt(r.Spec.Revision, 10))
		}
	}
	numbers = slices.Compact(numbers)
	switch n := len(numbers); n {
	case 0:
		return "none"
	case 1:
		return numbers[0]
	default:
		return strings.Join(numbers[:n-1], ", ") + " and " + numbers[n-1]
	}
}
