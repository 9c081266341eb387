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

// Drift says what to do about fields of an object that other managers have changed. The zero
// value corrects all of them.
type Drift struct {
	// Policy is Warn or Ignore; empty for Correct.
	Policy v1alpha1.DriftPolicy
	// Paths are the fields that Policy applies to; none for all.
	Paths []object.Pattern
}

// split separates lost fields into those that are taken back and those that are left to their
// managers. Fields that mark the object as ours are always taken back.
func (d Drift) split(lost []object.Path) (ours, left []object.Path) {
	if d.Policy == "" {
		return lost, nil
	}
	for _, field := range lost {
		covers := func(p object.Pattern) bool { return p.Covers(field) }
		if !inventory.IsOwnershipField(field) && (len(d.Paths) == 0 || slices.ContainsFunc(d.Paths, covers)) {
			left = append(left, field)
		} else {
			ours = append(ours, field)
		}
	}
	return ours, left
}

// Reclaimed returns the lost fields that the step takes back.
func (s Step) Reclaimed(lost []object.Path) []object.Path {
	ours, _ := s.Drift.split(lost)
	return ours
}

// Ceded returns the lost fields that the step leaves to their managers.
func (s Step) Ceded(lost []object.Path) []object.Path {
	_, left := s.Drift.split(lost)
	return left
}

// Inspections are, by the UID of a child, the results of inspecting fields of it whose drift is
// reported and not corrected.
type Inspections map[types.UID]Inspection

// Inspection separates the fields that another manager has changed from those whose ownership
// the server doesn't grant.
type Inspection struct {
	// Digest is the FieldsDigest of the inspected fields.
	Digest string
	// Drifted are the fields that were changed, and Managers names their managers, as far as
	// they are known.
	Drifted  []object.Path
	Managers string
}

// FieldsDigest is the digest of fields of an object and their values: while it is the same,
// inspecting them gives the same result.
func FieldsDigest(o *unstructured.Unstructured, fields []object.Path) string {
	values := make([]any, len(fields))
	for i, field := range fields {
		values[i] = object.ValueAt(o.Object, field)
	}
	return object.Digest([]any{fields, values})
}

// handleDrift decides what to do with an object whose desired state was last applied, if other
// managers have changed it since.
func (s *Step) handleDrift(asApplied *unstructured.Unstructured, history History, facts Facts, manager string) {
	child := s.Current.GetUID()
	lost, left := s.Drift.split(LostFields(asApplied, s.Current, manager))
	if len(lost) > 0 && history.Ungranted[child] != object.Digest(lost) {
		s.Action, s.LostFields, s.OmitFields = Correct, lost, left
		deferContested(s, history.Contests, facts.Now)
		return
	}
	if deferRecentlyContested(s, history.Contests, facts.Now) {
		return
	}
	if s.Drift.Policy != v1alpha1.DriftWarn || len(left) == 0 {
		return
	}
	seen, inspected := history.Inspections[child]
	if !inspected || seen.Digest != FieldsDigest(s.Current, left) {
		s.InspectFields = left
		return
	}
	if len(seen.Drifted) > 0 {
		s.DriftMessage = fmt.Sprintf("%s: %s of %s is set by %s, and is kept (driftPolicy: Warn)", s.Node, listPaths(seen.Drifted), object.KeyOf(s.Current), seen.Managers)
	}
}

// maxPaths bounds how many fields a message names.
const maxPaths = 5

func listPaths(paths []object.Path) string {
	texts := make([]string, 0, len(paths))
	for _, p := range paths[:min(len(paths), maxPaths)] {
		texts = append(texts, string(p))
	}
	text := strings.Join(texts, ", ")
	if more := len(paths) - maxPaths; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
