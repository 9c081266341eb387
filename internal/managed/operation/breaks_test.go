package operation_test

import (
	"testing"
	"time"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestEachBreakOfAnInvariantIsSeen breaks one after the other, and demands that a
// life in which it matters doesn't end well.
func TestEachBreakOfAnInvariantIsSeen(t *testing.T) {
	named := external.Caps{Marked: true}
	assigned := external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true}
	// Where marks can be searched, that would find what wasn't seen.
	unsearchable := external.Caps{Naming: external.ProviderAssigned, Marked: true, TokenTTL: time.Hour}
	cases := map[string]struct {
		caps  external.Caps
		async time.Duration
		crash int
		blind int
		taken bool
		next  func(operation.State) operation.Step
	}{
		"I1: a call is made that isn't stored": {caps: named, next: func(s operation.State) operation.Step {
			step := operation.Next(s)
			if step.Do == operation.UpdateBinding && step.Binding.Operation != nil && s.Binding.Operation == nil {
				op := step.Binding.Operation
				return operation.Step{Do: operation.Begin, Intent: &external.Intent{Verb: external.Verb(op.Verb), Attempt: op.Attempt, Token: op.Token, Request: op.Request, Key: s.Key}}
			}
			return step
		}},
		"I2: a second operation is opened beside the first": {caps: assigned, async: time.Minute, next: func(s operation.State) operation.Step {
			if s.Binding != nil && s.Binding.Operation != nil && s.Binding.Operation.Resume != "" && s.Answer == nil {
				s.Binding = s.Binding.DeepCopy()
				s.Binding.Operation = nil
			}
			return operation.Next(s)
		}},
		"I3: an operation is closed without proof": {caps: assigned, crash: 6, next: func(s operation.State) operation.Step {
			if s.Binding != nil && s.Binding.Operation != nil && !s.NotBegun && s.Answer == nil {
				next := s.Binding.DeepCopy()
				next.Operation, next.Phase = nil, binding.BindingReserved
				return operation.Step{Do: operation.UpdateBinding, Binding: next}
			}
			return operation.Next(s)
		}},
		"I4: what can't be seen isn't there": {caps: unsearchable, blind: 2, next: func(s operation.State) operation.Step {
			if s.ObserveErr != nil {
				s.Observed, s.ObserveErr = &external.Observation{Presence: external.Absent}, nil
			}
			return operation.Next(s)
		}},
		"I5: the managed resource goes before its external one": {caps: named, next: func(s operation.State) operation.Step {
			step := operation.Next(s)
			if step.Do == operation.Prepare && step.Verb == external.Delete {
				return operation.Step{Do: operation.RemoveFinalizer}
			}
			return step
		}},
		"I6: an identity changes by itself": {caps: named, next: func(s operation.State) operation.Step {
			step := operation.Next(s)
			if step.Do == operation.UpdateBinding && step.Binding.Operation != nil && step.Binding.Operation.Verb == string(external.Update) {
				step.Binding.Ref = "another"
			}
			return step
		}},
		"I7: a key is used that is somebody else's": {caps: named, taken: true, next: func(s operation.State) operation.Step {
			if s.ReservedBy != nil && s.Binding == nil {
				s.Binding = s.ReservedBy.DeepCopy()
				if s.Observed != nil {
					return operation.Step{Do: operation.Begin, Intent: &external.Intent{Verb: external.Create, Key: s.Key}}
				}
			}
			return operation.Next(s)
		}},
		"I8: what is stored depends on policies": {caps: assigned, next: func(s operation.State) operation.Step {
			step := operation.Next(s)
			if step.Do == operation.SetExternalName && !s.Resource.Policies.Allow(resource.ActionLateInitialize) {
				return operation.Step{Do: operation.Finish, Synced: operation.Condition{Status: "True", Reason: resource.ReconcileSuccess}}
			}
			return step
		}},
		"I9: an attempt is counted once for two": {caps: assigned, crash: 6, next: func(s operation.State) operation.Step {
			step := operation.Next(s)
			if step.Do == operation.UpdateBinding && step.Binding.Operation != nil && s.Binding.Operation != nil && step.Binding.Attempts > s.Binding.Attempts {
				step.Binding.Attempts, step.Binding.Operation.Attempt = s.Binding.Attempts, s.Binding.Attempts
			}
			return step
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, broken := range []bool{false, true} {
				l := newLife(tc.caps, tc.async, policies("OCUD"))
				l.crash, l.call, l.blind = tc.crash, neverArrives, tc.blind
				if tc.taken {
					l.takenBy = &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Phase: binding.BindingBound, Owner: binding.BindingOwner{Kind: "Thing", Name: "other", UID: "other"}}
				}
				if broken {
					l.next = tc.next
				}
				if bad := l.endsBadly(); bad != broken {
					t.Errorf("broken is %t, and it ends badly: %t\n%v", broken, bad, l.log)
				}
			}
		})
	}
}

// endsBadly plays a life and says whether harm has come of it.
func (l *life) endsBadly() (bad bool) {
	defer func() {
		if recover() != nil {
			bad = true // it doesn't even rest
		}
	}()
	for _, act := range []func(){func() {}, func() { l.want, l.resource.Generation = "v2", 2 }, func() { l.resource.Deleting = true }} {
		act()
		if l.settle() != nil {
			return true
		}
		if !l.resource.Deleting && l.takenBy == nil && (len(l.cloud.alive()) != 1 || l.stored == nil || l.stored.Ref != l.resource.ExternalName) {
			return true
		}
		l.elapse(10 * time.Second)
	}
	if l.takenBy == nil && (!l.gone || len(l.cloud.alive()) > 0) {
		return true
	}
	return len(l.cloud.harm) > 0 || l.cloud.creations > 1
}
