package xrd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// Rollout is how the revisions of a composition reach its instances, if annotations of the composition ask for waves or for a
// rollback; otherwise each instance follows the newest revision at once.
type Rollout struct {
	// Target is the revision that is to compose all instances in the end.
	Target revision.Target
	Waves  revision.Waves
	// Problems are the problems of the annotations: the instances stay as they are.
	Problems diag.List
	// State is the recorded state, in the current numbers of revisions. It is the zero State if none is recorded, or if the
	// revision that it is about is gone.
	State revision.State
}

// servedRevisions is the value of the annotation with the state. It names revisions, because numbers change: a composition that
// has the content of an older revision again gives that revision a new number.
type servedRevisions struct {
	Serving string                  `json:"serving"`
	Rolling string                  `json:"rolling,omitempty"`
	Rollout *v1alpha1.RolloutStatus `json:"rollout,omitempty"`
}

// asksForRollout reports whether annotations decide which revision composes the instances.
func asksForRollout(c *v1.Composition) bool {
	_, waves := c.Annotations[v1alpha1.RolloutAnnotation]
	_, rollback := c.Annotations[v1alpha1.RollbackAnnotation]
	return waves || rollback
}

// RolloutOf reads the rollout of a composition; asked is false if its instances follow the newest revision.
func RolloutOf(c *v1.Composition, revisions []*v1.CompositionRevision) (out Rollout, asked bool) {
	if !asksForRollout(c) {
		return Rollout{}, false
	}
	own := revisionsOf(c, revisions)
	out.readWaves(c.Annotations)
	out.State = readState(c, own)
	newest, valid := newestOf(own)
	t, rolledBack := revision.RollbackOf(c.Annotations, newest)
	if !rolledBack {
		t = revision.Target{Number: valid, Reason: revision.Latest}
	}
	out.Target = t
	out.Problems.Add(t.Problems...)
	if rolledBack && len(t.Problems) == 0 && find(own, t.Number) == nil {
		out.Problems.Addf(annotationPath(v1alpha1.RollbackAnnotation), "there is no revision %d", t.Number)
	}
	return out, true
}

func annotationPath(name string) object.Path { return object.Path("metadata.annotations").Field(name) }

func (r *Rollout) readWaves(annotations map[string]string) {
	text, given := annotations[v1alpha1.RolloutAnnotation]
	if !given {
		return
	}
	at := annotationPath(v1alpha1.RolloutAnnotation)
	rollout := &v1alpha1.Rollout{}
	if err := yaml.UnmarshalStrict([]byte(text), rollout); err != nil {
		r.Problems.Addf(at, "is not a rollout: %v", err)
		return
	}
	const maxWaves = 20 // as in definitions
	if n := len(rollout.Waves); n == 0 || n > maxWaves {
		r.Problems.Addf(at.Field("waves"), "must have 1 to %d waves, not %d", maxWaves, n)
		return
	}
	waves, problems := revision.ReadWaves(rollout, at)
	r.Waves = waves
	r.Problems.Add(problems...)
}

// newestOf returns the highest number, and the highest one with a valid pipeline: one that is not checked yet waits.
func newestOf(revisions []*v1.CompositionRevision) (newest, valid int64) {
	for _, r := range revisions {
		newest = max(newest, r.Spec.Revision)
		if _, isChecked := condition.Set(r.Status.Conditions).Get(v1.TypeValidPipeline); isChecked && !isInvalid(r) {
			valid = max(valid, r.Spec.Revision)
		}
	}
	return newest, valid
}

func find(revisions []*v1.CompositionRevision, number int64) *v1.CompositionRevision {
	at := slices.IndexFunc(revisions, func(r *v1.CompositionRevision) bool { return r.Spec.Revision == number })
	if at < 0 {
		return nil
	}
	return revisions[at]
}

// StateRecord is the revision of a composition that has the annotation with the state, or gets it: the first one that was created. Crossplane
// counts all annotations of a composition as content, but none of a revision. It is nil if there is no revision.
func StateRecord(c *v1.Composition, revisions []*v1.CompositionRevision) *v1.CompositionRevision {
	own := revisionsOf(c, revisions)
	if len(own) == 0 {
		return nil
	}
	hasNone := func(r *v1.CompositionRevision) int {
		if r.Annotations[v1alpha1.RolloutStateAnnotation] == "" {
			return 1
		}
		return 0
	}
	return slices.MinFunc(own, func(a, b *v1.CompositionRevision) int {
		return cmp.Or(hasNone(a)-hasNone(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

func readState(c *v1.Composition, own []*v1.CompositionRevision) revision.State {
	var s servedRevisions
	record := StateRecord(c, own)
	if record == nil || json.Unmarshal([]byte(record.Annotations[v1alpha1.RolloutStateAnnotation]), &s) != nil {
		return revision.State{}
	}
	out := revision.State{Serving: numberOf(own, s.Serving)}
	if rolling := numberOf(own, s.Rolling); out.Serving != 0 && rolling != 0 && s.Rollout != nil {
		out.Rollout = s.Rollout
		out.Rollout.Revision = rolling
	}
	return out
}

func numberOf(revisions []*v1.CompositionRevision, name string) int64 {
	for _, r := range revisions {
		if r.Name == name {
			return r.Spec.Revision
		}
	}
	return 0
}

// StateAnnotation is the value of the annotation that records a state. Numbers of instances are left out: they change with
// each instance, and each write of a composition reaches all instances.
func StateAnnotation(s revision.State, revisions []*v1.CompositionRevision) (string, error) {
	out := servedRevisions{}
	if r := find(revisions, s.Serving); r != nil {
		out.Serving = r.Name
	}
	if s.Rollout != nil {
		out.Rollout = s.Rollout.DeepCopy()
		out.Rollout.Total, out.Rollout.Updated, out.Rollout.Ready, out.Rollout.Pinned, out.Rollout.Unready = 0, 0, 0, 0, nil
		if r := find(revisions, s.Rollout.Revision); r != nil {
			out.Rolling = r.Name
		}
	}
	text, err := json.Marshal(out)
	return string(text), err
}

// MemberOf returns the composite as a member of its composition's rollout; isMember is false if another composition composes it.
// One that selects a revision itself, or by a selector of its definition, is pinned; one that is paused is left out.
func MemberOf(c *v1.Composition, revisions []*v1.CompositionRevision, i Instance, d *v1.CompositeResourceDefinition) (m revision.Member, isMember bool) {
	if i.CompositionName() != c.Name {
		return m, false
	}
	o := i.Object()
	m = revision.Member{
		Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels(), Pinned: selectsRevision(i, d),
		Deleting: o.GetDeletionTimestamp() != nil || o.GetAnnotations()[v1.PausedAnnotation] == "true",
		Revision: numberOf(revisions, i.RevisionName()), Ready: true,
	}
	all := condition.Set(i.Conditions())
	for _, kind := range []string{v1.TypeSynced, v1.TypeReady} {
		one, _ := all.Get(kind)
		if m.Ready && (one.Status != condition.True || one.ObservedGeneration < o.GetGeneration()) {
			m.Ready, m.Reason, m.Message = false, cmp.Or(one.Reason, "NotReconciled"), one.Message
		}
	}
	return m, true
}

func selectsRevision(i Instance, d *v1.CompositeResourceDefinition) bool {
	_, selects := i.RevisionSelector()
	return selects || i.UpdatePolicy() == v1.UpdateManual || d.Spec.DefaultCompositionRevisionSelector != nil
}

// Started is the state before the first step: what composes most of the members serves, because a rollout may be asked for
// together with the change that it is for.
func (r Rollout) Started(members []revision.Member) revision.State {
	if r.State.Serving != 0 {
		return r.State
	}
	count := map[int64]int{}
	for _, m := range members {
		if !m.Pinned && !m.Deleting && m.Revision != 0 {
			count[m.Revision]++
		}
	}
	numbers := slices.SortedFunc(maps.Keys(count), func(a, b int64) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(b, a)) })
	if len(numbers) == 0 {
		return revision.State{}
	}
	return revision.State{Serving: numbers[0]}
}

// assignedRevision is the revision that the rollout of a composition assigns to an instance. It is the one that the instance
// has, while nothing is recorded. isAssigned is false if the instance follows the newest revision.
func assignedRevision(c *v1.Composition, revisions []*v1.CompositionRevision, i Instance, d *v1.CompositeResourceDefinition) (one *v1.CompositionRevision,
	isAssigned bool) {
	if selectsRevision(i, d) {
		return nil, false
	}
	rollout, asked := RolloutOf(c, revisions)
	if !asked {
		return nil, false
	}
	o := i.Object()
	if one := find(revisionsOf(c, revisions), rollout.State.For(o.GetNamespace(), o.GetName(), o.GetLabels())); one != nil {
		return one, true
	}
	for _, r := range revisionsOf(c, revisions) {
		if r.Name == i.RevisionName() {
			return r, true
		}
	}
	return nil, false
}

func revisionsOf(c *v1.Composition, all []*v1.CompositionRevision) []*v1.CompositionRevision {
	return slices.DeleteFunc(slices.Clone(all), func(r *v1.CompositionRevision) bool { return r.Labels[v1.CompositionNameLabel] != c.Name })
}

// String says where the rollout is; "" if there is nothing to say.
func (r Rollout) String() string {
	s := r.State.Rollout
	switch {
	case len(r.Problems) > 0:
		return r.Problems.Err().Error()
	case r.State.Rolling() != 0:
		return fmt.Sprintf("revision %d is being rolled out (%s): %s", s.Revision, s.Phase, s.Message)
	}
	return ""
}
