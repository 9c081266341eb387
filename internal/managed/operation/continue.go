package operation

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// pollInterval is how often an operation is polled if its API suggests no interval.
const pollInterval = 5 * time.Second

// After a crash it is unknown whether the call was made. So the outcome is resolved, unless this reconcile is about to
// make the call, or the API has returned a token to resume with.
func (s State) continueOperation() Step {
	op := s.Binding.Operation
	switch {
	case s.Answer != nil:
		return s.handleAnswer(*s.Answer)
	case s.NotBegun && !op.Imported:
		return Step{Do: Begin, Intent: s.intent()}
	case op.Resume != "" && !op.Imported:
		return Step{Do: Poll}
	}
	step := s.resolve()
	if step.Ready.Reason == "" {
		step.Ready = s.readyDuringOperation() // nothing more specific was observed
	}
	return step
}

func (s State) handleAnswer(a external.Op) Step {
	switch {
	case s.Polled && a.Err != nil && !a.Done: // the poll failed, which proves nothing about the operation
		return s.awaitOutcome(a.Err)
	case a.Err == nil && !a.Done:
		return s.awaitCompletion(a)
	case a.Err == nil:
		return s.handleSuccess(a)
	case a.Err.Class == external.Rejected:
		return s.handleRejection(a)
	case a.Err.Class == external.Failed:
		return s.handleFailure(a)
	}
	return s.awaitOutcome(a.Err)
}

// The error does not show the operation's outcome. The next reconcile resolves it, and may repeat the same call.
func (s State) awaitOutcome(err *external.OpError) Step {
	return Step{
		Do: Finish, Err: err, After: err.RetryAfter, Ready: s.readyDuringOperation(),
		Synced: syncedCondition(metav1.ConditionUnknown, resource.OperationInProgress,
			fmt.Sprintf("%s the external resource: %s; the outcome is unknown and is being checked", gerund(s.Binding.Operation.Verb), err)),
	}
}

// It first stores what is needed to poll the operation.
func (s State) awaitCompletion(a external.Op) Step {
	op := s.Binding.Operation
	if (a.Resume != "" && a.Resume != op.Resume) || (a.Ref != "" && string(a.Ref) != op.Ref) {
		return s.updateBinding(func(b *binding.BindingSpec) {
			b.Operation.Resume = cmp.Or(a.Resume, op.Resume)
			b.Operation.Ref = cmp.Or(string(a.Ref), op.Ref)
		})
	}
	after := min(a.RetryAfter, maxRetryAfter)
	if after <= 0 {
		after = pollInterval
	}
	message := gerund(op.Verb) + " the external resource, since " + op.StartedAt.UTC().Format(time.RFC3339)
	if a.State != "" {
		message += ": " + a.State
	}
	return Step{
		Do: Finish, After: after, Ready: s.readyDuringOperation(),
		Synced: syncedCondition(metav1.ConditionUnknown, resource.OperationInProgress, message),
	}
}

func (s State) handleSuccess(a external.Op) Step {
	switch external.Verb(s.Binding.Operation.Verb) {
	case external.Create:
		ref := cmp.Or(a.Ref, s.ref())
		if ref == "" {
			return s.updateBinding(func(b *binding.BindingSpec) { b.Operation.Resume = "" }) // it is found by its mark
		}
		return s.bind(ref, s.Binding.Mark)
	case external.Delete:
		return s.updateBinding(func(b *binding.BindingSpec) { s.closeOperation(b) })
	case external.Update:
	}
	return s.updateBinding(func(b *binding.BindingSpec) {
		s.closeOperation(b)
		b.Phase = binding.BindingBound
	})
}

func (s State) closeOperation(b *binding.BindingSpec) {
	ended := &binding.BindingEnded{Verb: b.Operation.Verb, Request: digest(b.Operation.Request), At: metav1.NewMicroTime(s.Now)}
	ended.Reverted = countReverted(b.Ended, ended)
	b.Ended = ended
	if external.Verb(ended.Verb) != external.Delete && s.OperationErr == nil { // a creation that failed might not have set them
		b.WriteOnlyDigest = b.Operation.WriteOnlyDigest
	}
	b.Operation = nil
}

// The rejected operation had no effect. A deletion stays open as long as a repetition would make the same call.
func (s State) handleRejection(a external.Op) Step {
	op := s.Binding.Operation
	if external.Verb(op.Verb) == external.Delete {
		return s.handleRejectedDelete(a)
	}
	if external.Verb(op.Verb) == external.Create && s.Caps.Naming == external.ProviderAssigned {
		switch {
		case a.Err.Mismatch: // the token was used with another request, so a resource may exist
			return s.resolveByMark().with(s.readyDuringOperation())
		case op.Repeated: // only this call is proven to have had no effect, not the one before
			return s.handleRejectedRepeat(a)
		}
	}
	if external.Verb(op.Verb) == external.Create && op.Repeated && s.untilVisible(s.lastUnresolvedCall())+arrivalTime > 0 {
		return s.afterRejectedRepeat(s.awaitOutcome(a.Err)) // the call before may still arrive; later the name shows its outcome
	}
	return s.updateBinding(func(b *binding.BindingSpec) {
		if external.Verb(op.Verb) == external.Create && !op.Repeated {
			// The call had no effect: what exists from now on is another owner's.
			b.AbsentBefore = nil
		}
		b.Operation, b.Phase = nil, binding.BindingReserved
		if b.Ref != "" {
			b.Phase = binding.BindingBound
		}
	})
}

// handleRejectedRepeat searches by the mark once a created resource must be visible. Before
// that, or without a search, the call is repeated until an answer proves the outcome.
func (s State) handleRejectedRepeat(a external.Op) Step {
	if s.Caps.Findable && s.untilVisible(s.lastUnresolvedCall())+arrivalTime <= 0 {
		return s.resolveByMark().with(s.readyDuringOperation())
	}
	return s.afterRejectedRepeat(s.awaitOutcome(a.Err))
}

// The creation stays open, and the time of its last call is set back to the previous one's, which has an unknown
// outcome. Once that is stored, it returns next.
func (s State) afterRejectedRepeat(next Step) Step {
	if !s.isRepeatRejected() || s.PreviousCall.Equal(s.Binding.Operation.RepeatedAt) {
		return next
	}
	return s.updateBinding(func(b *binding.BindingSpec) {
		at := s.PreviousCall
		b.Operation.RepeatedAt = &at
	})
}

// handleRejectedDelete keeps a rejected deletion open, unless its request would be another
// by now: because the spec has changed what is deleted with it, or because the external
// resource has changed.
func (s State) handleRejectedDelete(a external.Op) Step {
	request, prepared := s.Requests[external.Delete]
	closed := s.updateBinding(func(b *binding.BindingSpec) { b.Operation = nil })
	switch {
	case s.Observed == nil && s.ObserveErr == nil:
		return Step{Do: Observe, Ref: s.ref()}
	case s.Observed != nil && s.Observed.Presence == external.Absent:
		return closed
	case s.Observed != nil && s.Observed.Presence == external.Present && !prepared:
		return Step{Do: Prepare, Verb: external.Delete}
	case prepared && !bytes.Equal(request, s.Binding.Operation.Request):
		return closed
	}
	return Step{
		Do: Finish, Err: a.Err, After: a.Err.RetryAfter, Ready: deletingCondition(s),
		Synced: syncedCondition(metav1.ConditionFalse, resource.ReconcileError, "delete the external resource: "+a.Err.Error()),
	}
}

// handleFailure closes an operation that has failed. What a failed creation has left is bound, so no second resource is
// created.
func (s State) handleFailure(a external.Op) Step {
	switch external.Verb(s.Binding.Operation.Verb) {
	case external.Create:
		if a.Ref != "" {
			return s.bind(a.Ref, s.Binding.Mark)
		}
		if s.isFailureFindable() || s.Binding.Operation.Resume != "" {
			return s.updateBinding(func(b *binding.BindingSpec) {
				if b.Operation.Resume = ""; s.isFailureFindable() {
					at := metav1.NewMicroTime(s.Now)
					b.Operation.Failed = &at
				}
			})
		}
		return s.resolve().with(s.readyDuringOperation())
	case external.Delete:
		return s.updateBinding(func(b *binding.BindingSpec) { b.Operation = nil })
	case external.Update:
	}
	return s.updateBinding(func(b *binding.BindingSpec) { b.Operation, b.Phase = nil, binding.BindingBound })
}

// An identity that the provider has assigned is reserved first, so no other managed resource is bound to it.
func (s State) bind(ref external.Ref, mark string) Step {
	if s.Caps.Naming == external.ProviderAssigned && !s.IdentityReserved && !s.Binding.Shared {
		if s.IdentityReservedBy != nil {
			return s.reservedBy(s.IdentityReservedBy)
		}
		return Step{Do: ReserveIdentity, Ref: ref}
	}
	return s.updateBinding(func(b *binding.BindingSpec) {
		b.Ref, b.Mark, b.Phase, b.Incarnation = string(ref), mark, binding.BindingBound, s.observedIncarnation(ref)
		if (s.Caps.Findable || s.Caps.Naming == external.CallerAssigned) && b.Operation != nil && (b.Operation.Repeated || b.Operation.Attempt > 1) {
			at := metav1.NewMicroTime(s.Now)
			b.Doubted = &at
		}
		if b.Operation != nil {
			s.closeOperation(b)
		}
		b.Unresolved, b.AbsentSince = nil, nil
	})
}

func (s State) readyDuringOperation() Condition {
	switch external.Verb(s.Binding.Operation.Verb) {
	case external.Create:
		return Condition{Status: metav1.ConditionFalse, Reason: resource.Creating}
	case external.Delete:
		return deletingCondition(s)
	case external.Update:
	}
	return Condition{}
}

func gerund(verb string) string {
	return map[string]string{string(external.Create): "creating", string(external.Update): "updating", string(external.Delete): "deleting"}[verb]
}
