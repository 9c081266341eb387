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

// Why says what a revision was chosen for.
type Why string

// Reasons of a choice. They are also those of the definition's condition.
const (
	// Latest: nobody asks for another.
	Latest Why = "Resolved"
	// Pinned: spec.revision says so.
	Pinned Why = "Pinned"
	// RolledBack: the definition's annotation says so.
	RolledBack Why = "RolledBack"
)

// Target is the revision that instances are to be composed by in the end.
type Target struct {
	Number int64
	Why    Why
	// Asked is where the number is written; empty for the latest.
	Asked string
	// Revision is nil if there is none of the number, or none at all.
	Revision *rev.GraphRevision
	// Problems say that what asks for a revision makes no sense; the definition is to be
	// left as it is then.
	Problems diag.List
}

// TargetOf is the revision that a definition asks for, of sorted revisions: the one that it
// is rolled back to; or else that which its spec names; or else the newest. A rollback goes
// before the spec: it is made in a hurry, and where the spec comes from it is soon restored.
func TargetOf(annotations map[string]string, spec *v1alpha1.DefinitionSpec, all []*rev.GraphRevision) Target {
	newest := Newest(all)
	if to, given := annotations[v1alpha1.RollbackAnnotation]; given {
		t := Target{Why: RolledBack, Asked: "annotation " + v1alpha1.RollbackAnnotation}
		var from int64
		t.Number = t.number(v1alpha1.RollbackAnnotation, to)
		if text, given := annotations[v1alpha1.RollbackFromAnnotation]; given {
			from = t.number(v1alpha1.RollbackFromAnnotation, text)
		}
		over := from > 0 && newest != nil && newest.Spec.Revision > from
		if len(t.Problems) > 0 || !over {
			t.Revision = Numbered(all, t.Number)
			return t
		}
	}
	if spec.Revision != nil {
		return Target{Number: *spec.Revision, Why: Pinned, Asked: "spec.revision", Revision: Numbered(all, *spec.Revision)}
	}
	if newest == nil {
		return Target{Why: Latest}
	}
	return Target{Number: newest.Spec.Revision, Why: Latest, Revision: newest}
}

func (t *Target) number(annotation, text string) int64 {
	n, err := ParseNumber(text)
	if err != nil {
		t.Problems.Addf(object.Path("metadata.annotations").Field(annotation), "%v", err)
	}
	return n
}

// ParseNumber reads a revision's number as people write it.
func ParseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("is the number of a revision, such as 3, not %q", diag.Cut(text, 32))
	}
	return n, nil
}

// List names the revisions that there are, for people: "1, 2 and 5".
func List(all []*rev.GraphRevision) string {
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
