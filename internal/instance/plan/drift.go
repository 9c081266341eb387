package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// A field has drifted once another manager has changed it. What happens then, in the order of this file:
//
//   - A field that the policy covers is left to the other manager. With the policy Warn the status names it, once an
//     inspection has shown that the manager changed it: the API server does not grant the ownership of every field.
//   - Every other field is taken back, and an event names the manager.
//   - A field that is lost again and again is contested: it is taken back only after the other manager has stopped for a
//     while.
//   - A node that refuses conflicts takes over no field of another manager in the first place: it waits until the field is
//     released.
//
// Which fields were lost is decided in lostfields.go, by ownership.

// Drift says what to do about fields of an object that other managers have changed. The zero
// value corrects all of them.
type Drift struct {
	// Policy is Warn or Ignore; empty for Correct.
	Policy v1alpha1.DriftPolicy
	// Paths are the fields that Policy applies to; none for all.
	Paths []object.Pattern
	// External are fields that Policy ignores, and that also belong to another manager which has set them before the
	// object was adopted.
	External []object.Pattern
}

// IsExternal reports whether a field is one of the external ones.
func (d Drift) IsExternal(field object.Path) bool {
	return slices.ContainsFunc(d.External, func(p object.Pattern) bool { return p.Covers(field) })
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

// FieldsLeft returns the lost fields that the step leaves to their managers.
func (s Step) FieldsLeft(lost []object.Path) []object.Path {
	_, left := s.Drift.split(lost)
	return left
}

// The desired state was last applied. Other managers may have changed the object afterwards.
func (s *Step) handleDrift(asApplied *unstructured.Unstructured, history History, facts Facts, manager string) {
	child := s.Current.GetUID()
	var lost, left []object.Path
	if s.Intact = history.Intact.has(s.Current); !s.Intact {
		all := DriftedFields(asApplied, s.Current, manager)
		lost, left = s.Drift.split(all)
		s.Intact = len(all) == 0
	}
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
		s.DriftMessage = fmt.Sprintf("%s: %s of %s is set by %s, and is kept (driftPolicy: Warn)", s.Node, s.DescribeFields(seen.Drifted),
			object.KeyOf(s.Current), seen.Managers)
	}
}

// History is what earlier reconciles of an instance learned and observing it doesn't show.
// Correctness doesn't depend on it: losing it costs a request or two.
type History struct {
	Ungranted   Ungranted
	Contests    Contests
	Refusals    Refusals
	Inspections Inspections
	Intact      Intact
	Contributed Contributed
}

// Inspections are, by the UID of a child, the results of inspecting fields with drift that is reported and not
// corrected.
type Inspections map[types.UID]Inspection

// Inspection separates the fields that another manager has changed from fields that the server grants no ownership of.
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

// Contests are the fields of ours that another manager has taken over recently, by the UID of the child. A thousand
// children may drift at once: what one of them adds copies nothing of its siblings.
type Contests map[types.UID]map[object.Path]Contest

// Contest records recent writes to one field.
type Contest struct {
	// Corrections are the last times at which the field was taken back.
	Corrections []time.Time
	// Ceded says that the field was left to the other manager for a while. LastWrite is when
	// that manager's last write was observed, and ValueDigest the digest of what it wrote.
	Ceded       bool
	LastWrite   time.Time
	ValueDigest string
}

// Two managers that fight over a field must not cause a hot loop. A field that was taken back contestLosses times
// within contestWindow is contested: from then on it is taken back only after the other manager has not written it for
// contestQuiet, and counts as contested until it has stayed ours for as long.
//
// A manager that makes a field contested writes more often than once in contestWindow / contestLosses. Both periods
// together are as long, so the status doesn't change between the writes of a manager that continues.
const (
	contestWindow = time.Minute
	contestLosses = 3
	contestQuiet  = contestWindow / contestLosses / 2
)

// WithCorrection adds a correction of the fields.
func (l Contests) WithCorrection(child types.UID, fields []object.Path, now time.Time) Contests {
	for _, field := range fields {
		c := l[child][field]
		times := append(slices.Clone(c.Corrections), now)
		c.Corrections, c.ValueDigest = times[max(0, len(times)-contestLosses):], ""
		l = l.with(child, field, c)
	}
	return l
}

// WithObservedWrites adds the writes that a step has observed, if the step leaves contested fields to
// another manager for now.
func (l Contests) WithObservedWrites(step Step, now time.Time) Contests {
	if step.Action != Defer || len(step.ContestedFields) == 0 || len(step.LostFields) == 0 {
		return l
	}
	child := step.Current.GetUID()
	for _, field := range step.ContestedFields {
		c := l[child][field]
		c.LastWrite, c.ValueDigest = c.observeWrite(step.Current, field, now)
		c.Ceded = true
		l = l.with(child, field, c)
	}
	return l
}

func (l Contests) with(child types.UID, field object.Path, c Contest) Contests {
	if l == nil {
		l = Contests{}
	}
	if l[child] == nil {
		l[child] = map[object.Path]Contest{}
	}
	l[child][field] = c
	return l
}

// DropOld drops contests that are too old to count.
func (l Contests) DropOld(now time.Time) {
	for child, fields := range l {
		maps.DeleteFunc(fields, func(_ object.Path, c Contest) bool { return now.Sub(c.lastActivity()) >= contestWindow })
		if len(fields) == 0 {
			delete(l, child)
		}
	}
}

func (c Contest) lastActivity() time.Time {
	last := c.LastWrite
	if n := len(c.Corrections); n > 0 && c.Corrections[n-1].After(last) {
		last = c.Corrections[n-1]
	}
	return last
}

// The other manager owns the field now. The digest is of the value.
func (c Contest) observeWrite(o *unstructured.Unstructured, field object.Path, now time.Time) (at time.Time, digest string) {
	digest = FieldsDigest(o, []object.Path{field})
	if c.ValueDigest != digest {
		return now, digest
	}
	return c.LastWrite, digest
}

// Such a field was lost so often that it is left alone for a while.
func (c Contest) isContested(now time.Time) bool {
	if c.Ceded && now.Sub(c.lastActivity()) < contestWindow {
		return true
	}
	recent := slices.DeleteFunc(slices.Clone(c.Corrections), func(t time.Time) bool { return now.Sub(t) >= contestWindow })
	return len(recent) >= contestLosses
}

// deferContested turns a correction into a wait while another manager keeps writing one of its
// fields.
func deferContested(step *Step, losses Contests, now time.Time) {
	var until time.Time
	for _, field := range step.LostFields {
		c := losses[step.Current.GetUID()][field]
		if !c.isContested(now) {
			continue
		}
		step.ContestedFields = append(step.ContestedFields, field)
		if at, _ := c.observeWrite(step.Current, field, now); at.Add(contestQuiet).After(until) {
			until = at.Add(contestQuiet)
		}
	}
	if now.Before(until) {
		step.deferForContest(until.Sub(now))
	}
}

// deferRecentlyContested makes the step wait while fields that were contested have not stayed
// ours for contestQuiet yet. It reports whether there are any.
func deferRecentlyContested(step *Step, losses Contests, now time.Time) bool {
	var until time.Time
	for field, c := range losses[step.Current.GetUID()] {
		if n := len(c.Corrections); c.Ceded && n > 0 && c.isContested(now) {
			step.ContestedFields = append(step.ContestedFields, field)
			if end := c.Corrections[n-1].Add(contestQuiet); end.After(until) {
				until = end
			}
		}
	}
	slices.Sort(step.ContestedFields)
	if !now.Before(until) {
		step.ContestedFields = nil
		return false
	}
	step.deferForContest(until.Sub(now))
	return true
}

func (s *Step) deferForContest(retry time.Duration) {
	s.Action, s.Retry = Defer, retry
	s.Problem = Problem{
		Reason: DriftContested,
		Message: fmt.Sprintf("%s%s of %s; it is corrected once that manager has stopped for %s",
			contestedPrefix, s.DescribeFields(s.ContestedFields[:1]), object.KeyOf(s.Current), contestQuiet),
	}
}

// Refusals are, by the UID of a child, the conflicts that the server last answered with when a
// node with RefuseConflicts was applied.
type Refusals map[types.UID]RefusedApply

// RefusedApply is an apply that failed because another manager has set fields to other values.
type RefusedApply struct {
	// DesiredDigest is the digest of the applied configuration, and LiveDigest the ContentDigest
	// of the live object. While both are the same, so is the answer.
	DesiredDigest, LiveDigest string
	Problem                   Problem
}

// deferRefused turns a write that would be refused again into a wait.
func deferRefused(step *Step, refusals Refusals) {
	if !step.RefuseConflicts || step.Current == nil || !step.Action.Applies() {
		return
	}
	refusal, ok := refusals[step.Current.GetUID()]
	if ok && refusal.DesiredDigest == inventory.AppliedDigest(step.Object) && refusal.LiveDigest == ContentDigest(step.Current) {
		step.Action, step.Problem = Defer, refusal.Problem
	}
}

// ContentDigest is the digest of an object without its status and without metadata that changes
// with every write: while it is the same, a refused write would be refused again.
func ContentDigest(o *unstructured.Unstructured) string {
	seen := make(map[string]any, len(o.Object))
	for key, value := range o.Object {
		if key != "status" && key != "metadata" {
			seen[key] = value
		}
	}
	annotations := map[string]string{}
	for key, value := range o.GetAnnotations() {
		if key != lastApplied {
			annotations[key] = value
		}
	}
	seen["metadata"] = []any{o.GetUID(), o.GetLabels(), annotations, o.GetFinalizers(), o.GetOwnerReferences()}
	return object.Digest(seen)
}

// lastApplied is kubectl's copy of an object, which caches drop.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
