package operation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Next says what to do next. The same state gives the same step.
func Next(s State) Step {
	step := s.next()
	if !s.Until.IsZero() && s.Until.Sub(s.Now) < shortestCall && s.begins(step) {
		return Step{Do: Rest, After: shortestCall} // another process may be about to do it
	}
	if step.Do == Rest && s.Resource.Deleting && step.Synced.Reason != resource.ReconcilePaused {
		step.Ready = deleting(s)
	}
	return step.bounded()
}

// shortestCall is how long must be left for a call when it is begun.
const shortestCall = 100 * time.Millisecond

// begins says that a step makes a call that changes something, or is about to, or takes
// the key: the API server, which refuses to store what others have changed, would let
// who has been overtaken do that, for what has gone by now. An assigned identity is
// taken all the same, while its answer is at hand.
func (s State) begins(step Step) bool {
	opens := step.Do == Record && step.Binding.Operation != nil && (s.Binding.Operation == nil || s.Binding.Operation.Attempt != step.Binding.Operation.Attempt)
	return step.Do == Begin || step.Do == Reserve || opens
}

func (s State) next() Step {
	switch {
	case s.Resource.Paused || s.Resource.Policies.Paused():
		return rest(resource.ReconcilePaused, paused(s.Resource), 0)
	case s.Resource.Policies.Validate() != nil:
		return rest(resource.ReconcileError, s.Resource.Policies.Validate().Error(), 0)
	case s.PrepareFailed != nil:
		return Fails(fmt.Errorf("prepare the request: %w", s.PrepareFailed))
	case s.Binding != nil && s.moved() && s.asks():
		return s.elsewhere()
	case s.Binding != nil && s.Binding.Operation != nil:
		return s.carryOn()
	case s.Resource.Deleting:
		return s.remove()
	}
	return s.keep()
}

func paused(r Resource) string {
	if r.Paused {
		return "paused by the annotation " + resource.PausedAnnotation + "; nothing is looked at or changed"
	}
	return "paused by an empty spec.managementPolicies; nothing is looked at or changed"
}

// reserve takes the key, before anything is asked of the external API.
func (s State) reserve() Step {
	if s.Taken != nil {
		return s.taken(s.Taken)
	}
	return Step{Do: Reserve, Binding: &binding.BindingSpec{
		Key:   binding.BindingKey{Scope: s.Key.Scope, Type: s.Key.Type, Name: s.Key.Name},
		Owner: s.Resource.Owner, Shared: !s.Resource.Policies.Exclusive(),
		Mark: s.Random, Explicit: s.Resource.ExternalName != "", Phase: binding.BindingReserved,
	}}
}

// taken says who has the key. The end of that is an event, which brings the next
// pass; nothing is asked of the external API meanwhile.
func (s State) taken(by *binding.BindingSpec) Step {
	holder := fmt.Sprintf("%s %s", by.Owner.Kind, by.Owner.Name)
	if by.Owner.Namespace != "" {
		holder = fmt.Sprintf("%s %s/%s", by.Owner.Kind, by.Owner.Namespace, by.Owner.Name)
	}
	what := fmt.Sprintf("%s %q in %s", s.Key.Type, s.Key.Name, s.Key.Scope)
	switch by.Phase {
	case binding.BindingTombstone:
		if by.Until == nil {
			return rest(resource.NameDeleting, fmt.Sprintf("%s was deleted for %s", what, holder), 0)
		}
		return rest(resource.NameDeleting, fmt.Sprintf("%s was deleted for %s, and its name can't be used again before %s", what, holder, by.Until.UTC().Format(time.RFC3339)), 0)
	case binding.BindingDeleting, binding.BindingReleased:
		return rest(resource.NameDeleting, fmt.Sprintf("%s is being deleted for %s; it is made anew when that has ended", what, holder), 0)
	case binding.BindingOrphaned:
		return rest(resource.NameReserved, fmt.Sprintf("%s belongs to %s, which was taken away by force; what became of it isn't known. Look after it, and delete its Binding", what, holder), 0)
	default:
	}
	return rest(resource.NameReserved, fmt.Sprintf("%s belongs to %s", what, holder), 0)
}

// record stores a changed copy of the binding.
func (s State) record(change func(*binding.BindingSpec)) Step {
	next := s.Binding.DeepCopy()
	change(next)
	return Step{Do: Record, Binding: next}
}

// open stores a new operation, whose call is made after that.
func (s State) open(verb external.Verb, phase binding.BindingPhase) Step {
	request, prepared := s.Requests[verb]
	if !prepared {
		return Step{Do: Prepare, Verb: verb}
	}
	return s.record(func(b *binding.BindingSpec) {
		b.Attempts++
		b.Phase = phase
		b.Unresolved, b.AbsentSince = nil, nil
		if verb == external.Create {
			b.Retried = s.Resource.Retry // what was asked for before wasn't asked for this one
		}
		b.Operation = &binding.BindingOperation{
			Verb: string(verb), Attempt: b.Attempts, Token: s.Random, Request: request,
			Generation: s.Resource.Generation, StartedAt: metav1.NewMicroTime(s.Now),
		}
	})
}

// openOnce is open, unless the very same call has just ended: then what came of it
// doesn't show yet, or nothing did, and making it again and again helps neither.
func (s State) openOnce(verb external.Verb, phase binding.BindingPhase) Step {
	request, prepared := s.Requests[verb]
	if !prepared {
		return Step{Do: Prepare, Verb: verb}
	}
	last := s.Binding.Ended
	if last == nil || last.Verb != string(verb) || last.Request != digestOf(request) {
		return s.open(verb, phase)
	}
	switch left := s.left(last.At); {
	case left > 0:
		return s.settles(left)
	case s.MadeVerb == verb && bytes.Equal(request, s.Made):
		return Fails(fmt.Errorf("%s the external resource has ended, and it is as it was: %s", verbing(string(verb)), s.Look.Diff))
	}
	return s.open(verb, phase)
}

// digestOf tells requests apart.
func digestOf(request []byte) string {
	sum := sha256.Sum256(request)
	return hex.EncodeToString(sum[:16])
}

// look observes the external resource once in a pass, and again after each change.
func (s State) look() (step Step, done bool) {
	switch {
	case s.LookFailed != nil:
		return Fails(fmt.Errorf("look at the external resource: %w", s.LookFailed)), true
	case s.Look == nil:
		return Step{Do: Observe, Ref: s.ref()}, true
	case s.Look.Presence == external.Unknown:
		return Fails(fmt.Errorf("whether the external resource exists can't be told: %s", s.Look.Message)), true
	}
	return Step{}, false
}

// left is how long it takes until the external API shows what happened at a time.
func (s State) left(since metav1.MicroTime) time.Duration {
	return s.Caps.Settle - s.Now.Sub(since.Time)
}

// unshown is how long the external API may still show what was before an operation
// of the verb, if that is the last that has ended well.
func (s State) unshown(verb external.Verb) time.Duration {
	if e := s.Binding.Ended; e != nil && e.Verb == string(verb) {
		return max(0, s.left(e.At))
	}
	return 0
}

func deleting(State) Said {
	return Said{Status: metav1.ConditionFalse, Reason: resource.Deleting}
}
