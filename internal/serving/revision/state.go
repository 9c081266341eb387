package revision

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// State is the revisions that compose the instances of a definition which aren't pinned.
type State struct {
	// Serving composes the instances that no rollout has reached; 0 if there is none yet.
	Serving int64
	// Rollout is the current rollout, or the last one; nil for none.
	Rollout *v1alpha1.RolloutStatus
}

// StateOf is the state in a definition's status.
func StateOf(status v1alpha1.DefinitionStatus) State {
	return State{Serving: status.ServingRevision, Rollout: status.Rollout}
}

// Rolling is the revision of the current rollout; 0 for none.
func (s State) Rolling() int64 {
	if s.Rollout == nil || s.Rollout.Phase == v1alpha1.RolloutComplete {
		return 0
	}
	return s.Rollout.Revision
}

// Revisions are the numbers of the revisions that compose instances.
func (s State) Revisions() []int64 {
	var out []int64
	for _, n := range []int64{s.Serving, s.Rolling()} {
		if n != 0 {
			out = append(out, n)
		}
	}
	return out
}

// For is the revision that composes an instance.
func (s State) For(namespace, name string, instance labels.Set) int64 {
	if n := s.Rolling(); n != 0 && Reached(s.Rollout, namespace, name, instance) {
		return n
	}
	return s.Serving
}

// Served is the reason of the event that another revision composes all instances from now on.
const Served = "RevisionServed"

// Step is the result of one decision.
type Step struct {
	// Now is the state that instances are composed by until Next is written, and Next the one to write. Nothing is
	// composed by a revision before the written state says so: neither a crash nor a refused write reverts an instance.
	// Only the first revision of all does not wait.
	Now, Next   State
	Transitions []Transition
	// RequeueAfter is after how long to decide again without an event; 0 for never.
	RequeueAfter time.Duration
}

// UnmatchedSelectors returns the selectors of the begun waves that match no member that takes part, if the step begins a
// wave.
func (s Step) UnmatchedSelectors(members func() []Member) []labels.Selector {
	if s.Next.Rolling() == 0 || object.Digest(begunWaves(s.Now)) == object.Digest(begunWaves(s.Next)) {
		return nil
	}
	var out []labels.Selector
	for _, b := range begunWaves(s.Next) {
		if b.Selector == nil || b.Former {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Selector)
		if err != nil {
			continue // it matches nothing
		}
		if !slices.ContainsFunc(members(), func(m Member) bool { return m.participates() && selector.Matches(m.Labels) }) {
			out = append(out, selector)
		}
	}
	return out
}

func begunWaves(s State) []v1alpha1.BegunWave {
	if s.Rolling() == 0 {
		return nil
	}
	return s.Rollout.Begun
}

// StepTo moves the state one step toward a target that can serve. The next state composes all instances by
// the target if there are no waves, if nothing has served before, by a rollback, and if
// a rollout is replaced by the revision that served before it.
func (s State) StepTo(t Target, w Waves, members func() []Member, now time.Time) Step {
	if s.Serving == 0 || t.Number == s.Serving || !w.Any() || t.Reason == RolledBack {
		return s.switchAll(t)
	}
	out := Step{Now: s, Next: State{Serving: s.Serving}}
	var current *v1alpha1.RolloutStatus
	if n := s.Rolling(); n == t.Number {
		current = s.Rollout
	} else if n != 0 {
		out.Transitions = append(out.Transitions, endedTransition(n, t))
	}
	rollout, transitions, requeueAfter := w.advance(current, t.Number, members(), now)
	out.Next.Rollout, out.RequeueAfter = rollout, requeueAfter
	out.Transitions = append(out.Transitions, transitions...)
	if rollout.Phase == v1alpha1.RolloutComplete {
		out.Next.Serving = t.Number
	}
	return out
}

func (s State) switchAll(t Target) Step {
	next := State{Serving: t.Number}
	var transitions []Transition
	switch n := s.Rolling(); {
	case n != 0 && n != t.Number:
		transitions = append(transitions, endedTransition(n, t))
	case n == 0 && s.Rollout != nil && s.Rollout.Revision == t.Number:
		next.Rollout = s.Rollout // the one that rolled it out
	}
	if s.Serving != 0 && s.Serving != t.Number {
		transitions = append(transitions, Transition{Reason: Served, Message: fmt.Sprintf("instances are composed by revision %d (%s), no longer by %d",
			t.Number, t.Reason, s.Serving)})
	}
	now := s
	if s.Serving == 0 {
		now = next
	}
	return Step{Now: now, Next: next, Transitions: transitions}
}

func endedTransition(n int64, t Target) Transition {
	return Transition{Reason: RolloutEnded, Message: fmt.Sprintf("the rollout of revision %d ended before it was complete: revision %d is requested now",
		n, t.Number)}
}
