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

// Next decides on the next step. It is deterministic: equal states give equal steps.
func Next(s State) Step {
	step := s.next()
	switch {
	case s.isGuarded(step) && !s.LeaderUntil.IsZero() && s.LeaderUntil.Sub(s.Now) < minCallTime:
		return Step{Do: Finish, After: minCallTime} // the next leader may be about to do it
	case s.isSuperseded() && !step.onlyReads():
		return finish(resource.ReconcileError, supersededMessage(*s.Binding.Leader), supersededRetry).bounded()
	}
	if step.Binding != nil && s.Leader.Holder != "" {
		leader := s.Leader
		step.Binding.Leader = &leader
	}
	if step.Do == Finish && s.Resource.Deleting && step.Synced.Reason != resource.ReconcilePaused {
		step.Ready = deletingCondition(s)
	}
	return step.bounded()
}

// minCallTime is how long leadership must still last when a call is started.
const minCallTime = 100 * time.Millisecond

// supersededRetry is the delay before a process checks again whether it is superseded.
const supersededRetry = time.Minute

// isSuperseded reports whether a later leader has written the Binding: this process is not the
// leader that it takes itself for.
func (s State) isSuperseded() bool {
	if s.Binding == nil || s.Binding.Leader == nil || s.Leader.Holder == "" {
		return false
	}
	recorded := *s.Binding.Leader
	return recorded.Epoch > s.Leader.Epoch || recorded.Epoch == s.Leader.Epoch && recorded.Holder != s.Leader.Holder
}

func supersededMessage(by binding.BindingLeader) string {
	return fmt.Sprintf("nothing is changed: %s leads the controllers with epoch %d, later than this process. Two installations might serve this cluster; stop one", by.Holder, by.Epoch)
}

// A step needs leadership if it makes a call that changes something, or opens an operation for one, or reserves the
// key. The API server refuses updates of what other clients have changed, but it would accept a key from a former
// leader for a managed resource that is gone by now. An assigned identity is reserved without leadership, because the
// answer that names it is known only now.
func (s State) isGuarded(step Step) bool {
	opens := step.Do == UpdateBinding && step.Binding.Operation != nil &&
		(s.Binding.Operation == nil || s.Binding.Operation.Attempt != step.Binding.Operation.Attempt)
	return step.Do == Begin || step.Do == CreateBinding || opens
}

func (s State) next() Step {
	switch {
	case s.Replaced:
		return Step{Do: Finish, After: time.Second}
	case s.Resource.Paused || s.Resource.Policies.Paused():
		return finish(resource.ReconcilePaused, pausedMessage(s.Resource), 0)
	case s.Resource.Policies.Validate() != nil:
		return finish(resource.ReconcileError, s.Resource.Policies.Validate().Error(), 0).needingAction()
	case s.PrepareErr != nil:
		return Failure(fmt.Errorf("prepare the request: %w", s.PrepareErr))
	case s.Binding != nil && s.isKeyChanged() && s.mayCall():
		return s.handleKeyChange()
	case s.Binding != nil && s.Binding.Operation != nil:
		return s.continueOperation()
	case s.Resource.Deleting:
		return s.finalize()
	}
	return s.ensure()
}

func pausedMessage(r Resource) string {
	if r.Paused {
		return "paused by the annotation " + resource.PausedAnnotation + "; nothing is observed or changed"
	}
	return "paused by an empty spec.managementPolicies; nothing is observed or changed"
}

// createBinding reserves the key before the external API is called.
func (s State) createBinding() Step {
	if s.ReservedBy != nil {
		return s.reservedBy(s.ReservedBy)
	}
	return Step{Do: CreateBinding, Binding: &binding.BindingSpec{
		Key:   binding.BindingKey{Scope: s.DesiredKey.Scope, Type: s.DesiredKey.Type, Name: s.DesiredKey.Name},
		Owner: s.Resource.Owner, Shared: !s.Resource.Policies.Exclusive(),
		Mark: s.Random, Explicit: s.Resource.ExternalName != "", Phase: binding.BindingReserved,
	}}
}

// It ends the reconcile because another binding reserves the key, and reports its owner. The deletion of that binding
// is an event, which brings the next reconcile; the external API is not called until then.
func (s State) reservedBy(by *binding.BindingSpec) Step {
	owner := s.describeOwner(by.Owner)
	key := fmt.Sprintf("%s %q in %s", s.DesiredKey.Type, s.DesiredKey.Name, s.DesiredKey.Scope)
	switch by.Phase {
	case binding.BindingTombstone:
		if by.Until == nil {
			return finish(resource.NameDeleting, fmt.Sprintf("%s was deleted for %s", key, owner), 0)
		}
		return finish(resource.NameDeleting, fmt.Sprintf("%s was deleted for %s; its name cannot be reused before %s", key, owner,
			by.Until.UTC().Format(time.RFC3339)), 0)
	case binding.BindingDeleting, binding.BindingReleased:
		return finish(resource.NameDeleting, fmt.Sprintf("%s is being deleted for %s; it is created again when the deletion has ended", key, owner), 0)
	case binding.BindingOrphaned:
		return finish(resource.NameReserved, fmt.Sprintf("%s belongs to %s, which was deleted without its finalizer; it is unknown whether the external resource still exists. Check that, then delete the Binding", key, owner), 0)
	default:
	}
	return finish(resource.NameReserved, fmt.Sprintf("%s belongs to %s", key, owner), 0)
}

// describeOwner names the owner of another binding. A managed resource in a namespace is not told the names of objects
// elsewhere: the Binding contains them, for users who may read it.
func (s State) describeOwner(o binding.BindingOwner) string {
	switch own := s.Resource.Owner.Namespace; {
	case own != "" && o.Namespace == "":
		return "a cluster-scoped " + o.Kind
	case own != "" && o.Namespace != own:
		return fmt.Sprintf("a %s of another namespace", o.Kind)
	case o.Namespace == "":
		return fmt.Sprintf("%s %s", o.Kind, o.Name)
	}
	return fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name)
}

func (s State) updateBinding(change func(*binding.BindingSpec)) Step {
	next := s.Binding.DeepCopy()
	change(next)
	return Step{Do: UpdateBinding, Binding: next}
}

// Its call is made after that.
func (s State) openOperation(verb external.Verb, phase binding.BindingPhase) Step {
	request, prepared := s.Requests[verb]
	if !prepared {
		return Step{Do: Prepare, Verb: verb}
	}
	return s.updateBinding(func(b *binding.BindingSpec) {
		b.Attempts++
		b.Phase = phase
		b.Unresolved, b.AbsentSince = nil, nil
		if verb == external.Create {
			b.Retried = s.Resource.Retry // an earlier request to retry does not apply to this creation
		}
		b.Operation = &binding.BindingOperation{
			Verb: string(verb), Attempt: b.Attempts, Token: s.Random, Request: request,
			Generation: s.Resource.Generation, StartedAt: metav1.NewMicroTime(s.Now),
		}
		if verb != external.Delete {
			b.Operation.WriteOnlyDigest = s.WriteOnlyDigest
		}
	})
}

// openOperationOnce is open, unless the same call has just succeeded. Then its effect is not
// visible yet, or it had none, and repeating it helps in neither case.
func (s State) openOperationOnce(verb external.Verb, phase binding.BindingPhase) Step {
	request, prepared := s.Requests[verb]
	if !prepared {
		return Step{Do: Prepare, Verb: verb}
	}
	last := s.Binding.Ended
	if last == nil || last.Verb != string(verb) || last.Request != digest(request) {
		return s.openOperation(verb, phase)
	}
	switch left := s.untilVisible(last.At); {
	case left > 0:
		return s.awaitVisible(left)
	case s.isContested():
		return s.reportContested()
	case s.LastVerb == verb && bytes.Equal(request, s.LastRequest):
		return Failure(fmt.Errorf("%s the external resource has succeeded without effect; it still differs: %s", gerund(string(verb)), s.Observed.Diff))
	}
	return s.openOperation(verb, phase)
}

func digest(request []byte) string {
	sum := sha256.Sum256(request)
	return hex.EncodeToString(sum[:16])
}

// observe observes the external resource once per reconcile, and again after each call that
// changes it. It is done if the returned step has to be carried out first.
func (s State) observe() (step Step, done bool) {
	switch {
	case s.ObserveErr != nil:
		return Failure(fmt.Errorf("observe the external resource: %w", s.ObserveErr)), true
	case s.Observed == nil:
		return Step{Do: Observe, Ref: s.ref()}, true
	case s.Observed.Presence == external.Unknown:
		return Failure(fmt.Errorf("cannot determine whether the external resource exists: %s", s.Observed.Message)), true
	}
	return Step{}, false
}

// untilVisible is how long it takes until the external API shows what happened at a time; 0
// or less if it does by now.
func (s State) untilVisible(since metav1.MicroTime) time.Duration {
	return s.Caps.Settle - s.Now.Sub(since.Time)
}

// untilVisibleAfter is how long the external API may still show the state before an
// operation of the verb, if that was the last one to succeed.
func (s State) untilVisibleAfter(verb external.Verb) time.Duration {
	if e := s.Binding.Ended; e != nil && e.Verb == string(verb) {
		return max(0, s.untilVisible(e.At))
	}
	return 0
}

func deletingCondition(State) Condition {
	return Condition{Status: metav1.ConditionFalse, Reason: resource.Deleting}
}
