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

// pollEvery is how often an operation is asked after whose API doesn't say.
const pollEvery = 5 * time.Second

// carryOn goes on with the open operation. Whether its call was made can't be told
// after a crash: unless this very pass is about to make it, or the API has given
// something to go on with, it is resolved.
func (s State) carryOn() Step {
	op := s.Binding.Operation
	switch {
	case s.Answer != nil:
		return s.answered(*s.Answer)
	case s.Fresh:
		return Step{Do: Begin, Intent: s.intent()}
	case op.Resume != "":
		return Step{Do: Poll}
	}
	step := s.resolve()
	if step.Ready.Reason == "" {
		step.Ready = s.underWay() // nothing was seen that tells more
	}
	return step
}

// answered takes what the external API says of the open operation.
func (s State) answered(a external.Op) Step {
	switch {
	case s.Polled && a.Err != nil && !a.Done: // it couldn't be asked for: that says nothing about it
		return s.unknown(a.Err)
	case a.Err == nil && !a.Done:
		return s.goesOn(a)
	case a.Err == nil:
		return s.ended(a)
	case a.Err.Class == external.Rejected:
		return s.rejected(a)
	case a.Err.Class == external.Failed:
		return s.failed(a)
	}
	return s.unknown(a.Err)
}

// unknown is for an operation that an error says nothing about: the next pass finds
// out. The same call may be made again.
func (s State) unknown(err *external.OpError) Step {
	return Step{
		Do: Rest, Err: err, After: err.RetryAfter, Ready: s.underWay(),
		Synced: synced(metav1.ConditionUnknown, resource.OperationInProgress, fmt.Sprintf("%s: %s; what came of it is being found out", verbing(s.Binding.Operation.Verb), err)),
	}
}

// goesOn stores what is needed to go on, and waits.
func (s State) goesOn(a external.Op) Step {
	op := s.Binding.Operation
	if (a.Resume != "" && a.Resume != op.Resume) || (a.Ref != "" && string(a.Ref) != op.Ref) {
		return s.record(func(b *binding.BindingSpec) {
			b.Operation.Resume = cmp.Or(a.Resume, op.Resume)
			b.Operation.Ref = cmp.Or(string(a.Ref), op.Ref)
		})
	}
	after := min(a.RetryAfter, longestWait)
	if after <= 0 {
		after = pollEvery
	}
	message := verbing(op.Verb) + " the external resource, since " + op.StartedAt.UTC().Format(time.RFC3339)
	if a.State != "" {
		message += ": " + a.State
	}
	return Step{
		Do: Rest, After: after, Ready: s.underWay(),
		Synced: synced(metav1.ConditionUnknown, resource.OperationInProgress, message),
	}
}

// ended closes an operation that has ended well.
func (s State) ended(a external.Op) Step {
	switch external.Verb(s.Binding.Operation.Verb) {
	case external.Create:
		ref := cmp.Or(a.Ref, s.ref())
		if ref == "" {
			return s.record(func(b *binding.BindingSpec) { b.Operation.Resume = "" }) // the mark finds it
		}
		return s.bind(ref, s.Binding.Mark)
	case external.Delete:
		return s.record(func(b *binding.BindingSpec) { s.close(b) })
	case external.Update:
	}
	return s.record(func(b *binding.BindingSpec) {
		s.close(b)
		b.Phase = binding.BindingBound
	})
}

// close notes that the open operation has ended well.
func (s State) close(b *binding.BindingSpec) {
	b.Ended = &binding.BindingEnded{Verb: b.Operation.Verb, Request: digestOf(b.Operation.Request), At: metav1.NewMicroTime(s.Now)}
	b.Operation = nil
}

// rejected closes an operation that had no effect. A deletion stays open as long as
// the same call is right when it is made again.
func (s State) rejected(a external.Op) Step {
	op := s.Binding.Operation
	if external.Verb(op.Verb) == external.Delete {
		return s.refused(a)
	}
	if external.Verb(op.Verb) == external.Create && s.Caps.Naming == external.ProviderAssigned {
		switch {
		case a.Err.Mismatch: // its token was used with another request: something may be there
			return s.byMark().with(s.underWay())
		case op.Repeated: // that this call had no effect says nothing about the one before
			return s.repetitionRefused(a)
		}
	}
	if external.Verb(op.Verb) == external.Create && op.Repeated && s.left(s.called())+onTheWay > 0 {
		return s.refusedSo(s.unknown(a.Err)) // the call before it may be on its way: the name tells, and not yet
	}
	return s.record(func(b *binding.BindingSpec) {
		if external.Verb(op.Verb) == external.Create && !op.Repeated && s.Caps.Settle == 0 {
			// None of ours has come to be: what is there by now is another's. Where the
			// API shows things late, an earlier attempt's may be what was in the way.
			b.AbsentBefore = nil
		}
		b.Operation, b.Phase = nil, binding.BindingReserved
		if b.Ref != "" {
			b.Phase = binding.BindingBound
		}
	})
}

// repetitionRefused looks by the mark, if it has to be there by now; or else the call
// is repeated until its answer proves something.
func (s State) repetitionRefused(a external.Op) Step {
	if s.Caps.Findable && s.left(s.called())+onTheWay <= 0 {
		return s.byMark().with(s.underWay())
	}
	return s.refusedSo(s.unknown(a.Err))
}

// refusedSo leaves a creation open whose repetition was refused: what came of the call
// before that is what is waited for.
func (s State) refusedSo(then Step) Step {
	if !s.refusedAgain() || s.Earlier.Equal(s.Binding.Operation.RepeatedAt) {
		return then
	}
	return s.record(func(b *binding.BindingSpec) {
		at := s.Earlier
		b.Operation.RepeatedAt = &at
	})
}

// refused keeps a deletion that was refused, unless it would be asked in other words
// by now: because somebody has changed what is to become of dependents, or because
// the external resource has changed.
func (s State) refused(a external.Op) Step {
	again, prepared := s.Requests[external.Delete]
	closed := s.record(func(b *binding.BindingSpec) { b.Operation = nil })
	switch {
	case s.Look == nil && s.LookFailed == nil:
		return Step{Do: Observe, Ref: s.ref()}
	case s.Look != nil && s.Look.Presence == external.Absent:
		return closed
	case s.Look != nil && s.Look.Presence == external.Present && !prepared:
		return Step{Do: Prepare, Verb: external.Delete}
	case prepared && !bytes.Equal(again, s.Binding.Operation.Request):
		return closed
	}
	return Step{
		Do: Rest, Err: a.Err, After: a.Err.RetryAfter, Ready: deleting(s),
		Synced: synced(metav1.ConditionFalse, resource.ReconcileError, "delete the external resource: "+a.Err.Error()),
	}
}

// failed closes an operation that has ended badly and may have left something,
// which is bound: it is never made a second time behind somebody's back.
func (s State) failed(a external.Op) Step {
	switch external.Verb(s.Binding.Operation.Verb) {
	case external.Create:
		if a.Ref != "" {
			return s.bind(a.Ref, s.Binding.Mark)
		}
		if s.leavesTraces() || s.Binding.Operation.Resume != "" {
			return s.record(func(b *binding.BindingSpec) {
				if b.Operation.Resume = ""; s.leavesTraces() {
					at := metav1.NewMicroTime(s.Now)
					b.Operation.Failed = &at
				}
			})
		}
		return s.resolve().with(s.underWay())
	case external.Delete:
		return s.record(func(b *binding.BindingSpec) { b.Operation = nil })
	case external.Update:
	}
	return s.record(func(b *binding.BindingSpec) { b.Operation, b.Phase = nil, binding.BindingBound })
}

// bind stores the identity, once an assigned one is known to be nobody else's.
func (s State) bind(ref external.Ref, mark string) Step {
	if s.Caps.Naming == external.ProviderAssigned && !s.IDReserved && !s.Binding.Shared {
		if s.IDTaken != nil {
			return s.taken(s.IDTaken)
		}
		return Step{Do: ReserveID, Ref: ref}
	}
	return s.record(func(b *binding.BindingSpec) {
		b.Ref, b.Mark, b.Phase = string(ref), mark, binding.BindingBound
		if (s.Caps.Findable || s.Caps.Naming == external.CallerAssigned) && b.Operation != nil && (b.Operation.Repeated || b.Operation.Attempt > 1) {
			at := metav1.NewMicroTime(s.Now)
			b.Doubted = &at
		}
		if b.Operation != nil {
			s.close(b)
		}
		b.Unresolved, b.AbsentSince = nil, nil
	})
}

// underWay is what Ready says while an operation is open.
func (s State) underWay() Said {
	switch external.Verb(s.Binding.Operation.Verb) {
	case external.Create:
		return Said{Status: metav1.ConditionFalse, Reason: resource.Creating}
	case external.Delete:
		return deleting(s)
	case external.Update:
	}
	return Said{}
}

func verbing(verb string) string {
	return map[string]string{string(external.Create): "creating", string(external.Update): "updating", string(external.Delete): "deleting"}[verb]
}
