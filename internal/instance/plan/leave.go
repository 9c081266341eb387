package plan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// Drift says what becomes of fields of an object that somebody else has changed. The zero
// value has all of them corrected.
type Drift struct {
	// Policy is Warn or Ignore; empty for Correct.
	Policy v1alpha1.DriftPolicy
	// Paths are the fields that it is about; none for all.
	Paths []object.Pattern
}

// part parts fields that were lost into those that are taken back and those that are left
// to whoever has them. By what says whose the object is, it is ours: that isn't left.
func (d Drift) part(lost []object.Path) (ours, left []object.Path) {
	if d.Policy == "" {
		return lost, nil
	}
	for _, field := range lost {
		covers := func(p object.Pattern) bool { return p.Covers(field) }
		if !inventory.IsMark(field) && (len(d.Paths) == 0 || slices.ContainsFunc(d.Paths, covers)) {
			left = append(left, field)
		} else {
			ours = append(ours, field)
		}
	}
	return ours, left
}

// Reclaimed are those of the fields which somebody else has that the step doesn't leave to him.
func (s Step) Reclaimed(lost []object.Path) []object.Path {
	ours, _ := s.Drift.part(lost)
	return ours
}

// Ceded are the others.
func (s Step) Ceded(lost []object.Path) []object.Path {
	_, left := s.Drift.part(lost)
	return left
}

// Inspections are, by the UID of a child, what came of a closer look at fields of it that are
// told and not corrected.
type Inspections map[types.UID]Inspection

// Inspection tells the fields that somebody has changed from those of which the server
// doesn't let us say that they are ours.
type Inspection struct {
	// Of is the digest of the fields that were looked at, as they were: see Glance.
	Of string
	// Drifted are those that were changed, and By who has them, as far as that can be told.
	Drifted []object.Path
	By      string
}

// FieldsDigest is the digest of fields of an object: while it is the same, a closer look at them
// would tell the same.
func FieldsDigest(o *unstructured.Unstructured, fields []object.Path) string {
	values := make([]any, len(fields))
	for i, field := range fields {
		values[i] = object.At(o.Object, field)
	}
	return object.Digest([]any{fields, values})
}

// drift says what to do with an object that is as it was last applied, but for what others
// have made of it since.
func (s *Step) drift(asApplied *unstructured.Unstructured, history History, facts Facts, manager string) {
	child := s.Current.GetUID()
	lost, left := s.Drift.part(Lost(asApplied, s.Current, manager))
	if len(lost) > 0 && history.Tolerated[child] != object.Digest(lost) {
		s.Action, s.Lost, s.Omit = Correct, lost, left
		leaveContested(s, history.Losses, facts.Now)
		return
	}
	if staysContested(s, history.Losses, facts.Now) {
		return
	}
	if s.Drift.Policy != v1alpha1.DriftWarn || len(left) == 0 {
		return
	}
	seen, looked := history.Inspections[child]
	if !looked || seen.Of != FieldsDigest(s.Current, left) {
		s.Inspect = left
		return
	}
	if len(seen.Drifted) > 0 {
		s.Drifted = fmt.Sprintf("%s: %s of %s is set by %s, and is left so (driftPolicy: Warn)", s.Node, listPaths(seen.Drifted), object.KeyOf(s.Current), seen.By)
	}
}

// mostPaths bounds how many fields a message names.
const mostPaths = 5

func listPaths(paths []object.Path) string {
	texts := make([]string, 0, len(paths))
	for _, p := range paths[:min(len(paths), mostPaths)] {
		texts = append(texts, string(p))
	}
	text := strings.Join(texts, ", ")
	if more := len(paths) - mostPaths; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
