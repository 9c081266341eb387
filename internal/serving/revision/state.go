package revision

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// State is by which revisions the instances of a definition are composed that don't ask for
// one themselves.
type State struct {
	// Serving composes those that no rollout has reached; 0 if there is none yet.
	Serving int64
	// Rollout is under way, or is the last that was; nil for none.
	Rollout *v1alpha1.RolloutStatus
}

// StateOf is the state that was written last.
func StateOf(status v1alpha1.DefinitionStatus) State {
	return State{Serving: status.ServingRevision, Rollout: status.Rollout}
}

// Rolling is the revision that is being rolled out; 0 for none.
func (s State) Rolling() int64 {
	if s.Rollout == nil || s.Rollout.Phase == v1alpha1.RolloutComplete {
		return 0
	}
	return s.Rollout.Revision
}

// Revisions are the numbers of those that compose instances.
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

// Served is the reason of the event that instances are composed by another revision, all at
// once.
const Served = "RevisionServed"

// Step is one look at the state.
type Step struct {
	// Now is the state by which instances are composed until the next look, and Next what
	// is to be written. They differ while there is a rollout: what it reaches is composed
	// once that is written, so that a crash takes nothing back.
	Now, Next State
	Told      []Transition
	// Again is when to look again, events aside; 0 for never.
	Again time.Duration
}

// Toward takes the state one step toward a target that can serve. Without waves all
// instances are composed by it at once; so they are the first time, by a rollback, and when
// a rollout is given up for what served before it.
func (s State) Toward(t Target, w Waves, members func() []Member, now time.Time) Step {
	if s.Serving == 0 || t.Number == s.Serving || !w.Any() || t.Why == RolledBack {
		return s.atOnce(t)
	}
	out := Step{Now: State{Serving: s.Serving}, Next: State{Serving: s.Serving}}
	if s.Rolling() == t.Number {
		out.Now.Rollout = s.Rollout
	} else if n := s.Rolling(); n != 0 {
		out.Told = append(out.Told, ended(n, t))
	}
	rollout, told, again := w.Advance(out.Now.Rollout, t.Number, members(), now)
	out.Next.Rollout, out.Again = rollout, again
	out.Told = append(out.Told, told...)
	if rollout.Phase == v1alpha1.RolloutComplete {
		out.Next.Serving = t.Number
	}
	return out
}

func (s State) atOnce(t Target) Step {
	is := State{Serving: t.Number}
	var told []Transition
	switch n := s.Rolling(); {
	case n != 0 && n != t.Number:
		told = append(told, ended(n, t))
	case n == 0 && s.Rollout != nil && s.Rollout.Revision == t.Number:
		is.Rollout = s.Rollout // it is how this one came
	}
	if s.Serving != 0 && s.Serving != t.Number {
		told = append(told, Transition{Reason: Served, Message: fmt.Sprintf("instances are composed by revision %d (%s), no longer by %d", t.Number, t.Why, s.Serving)})
	}
	return Step{Now: is, Next: is, Told: told}
}

func ended(n int64, t Target) Transition {
	return Transition{Reason: RolloutEnded, Message: fmt.Sprintf("the rollout of revision %d has ended before it was complete: it is revision %d that is asked for", n, t.Number)}
}
