package operation_test

import (
	"testing"
	"time"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestEachViolatedInvariantIsDetected replaces operation.Next by a function that violates one
// invariant, and expects that a simulation detects it.
func TestEachViolatedInvariantIsDetected(t *testing.T) {
	named := external.Caps{Marked: true}
	assigned := external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true}
	// With a search by mark, the resource would be found after all.
	unsearchable := external.Caps{Naming: external.ProviderAssigned, Marked: true, TokenTTL: time.Hour}
	cases := map[string]struct {
		caps          external.Caps
		async         time.Duration
		crash         int
		failedObserve int
		reserved      bool
		next          func(operation.State) operation.Step
	}{
		"I1: a call is made before it is stored": {caps: named, next: func(s operation.State) operation.Step {
			step := operation.Next(s)
			if step.Do == operation.UpdateBinding && step.Binding.Operation != nil && s.Binding.Operation == nil {
				op := step.Binding.Operation
				return operation.Step{Do: operation.Begin, Intent: &external.Intent{Verb: external.Verb(op.Verb), Attempt: op.Attempt, Token: op.Token, Request: op.Request, Key: s.DesiredKey}}
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
		"I4: a failed observation counts as absence": {caps: unsearchable, failedObserve: 2, next: func(s operation.State) operation.Step {
			if s.ObserveErr != nil {
				s.Observed, s.ObserveErr = &external.Observation{Presence: external.Absent}, nil
			}
			return operation.Next(s)
		}},
		"I5: the finalizer is removed before the external resource is deleted": {caps: named, next: func(s operation.State) operation.Step {
			step := operation.Next(s)
			if step.Do == operation.Prepare && step.Verb == external.Delete {
				return operation.Step{Do: operation.RemoveFinalizer}
			}
			return step
		}},
		"I6: the bound identity changes": {caps: named, next: func(s operation.State) operation.Step {
			step := operation.Next(s)
			if step.Do == operation.UpdateBinding && step.Binding.Operation != nil && step.Binding.Operation.Verb == string(external.Update) {
				step.Binding.Ref = "another"
			}
			return step
		}},
		"I7: a call is made for a key that another owner has reserved": {caps: named, reserved: true, next: func(s operation.State) operation.Step {
			if s.ReservedBy != nil && s.Binding == nil {
				s.Binding = s.ReservedBy.DeepCopy()
				if s.Observed != nil {
					return operation.Step{Do: operation.Begin, Intent: &external.Intent{Verb: external.Create, Key: s.DesiredKey}}
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
		"I9: two attempts have one number": {caps: assigned, crash: 6, next: func(s operation.State) operation.Step {
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
				l := newSimulation(tc.caps, tc.async, policies("OCUD"))
				l.crash, l.call, l.failedObserve = tc.crash, neverArrives, tc.failedObserve
				if tc.reserved {
					l.reservedBy = &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Phase: binding.BindingBound, Owner: binding.BindingOwner{Kind: "Thing", Name: "other", UID: "other"}}
				}
				if broken {
					l.next = tc.next
				}
				if bad := l.isViolated(); bad != broken {
					t.Errorf("the invariant is violated: %t; that is detected: %t\n%v", broken, bad, l.log)
				}
			}
		})
	}
}

// isViolated creates, updates and deletes the resource, and reports whether an invariant was violated.
func (l *simulation) isViolated() (bad bool) {
	defer func() {
		if recover() != nil {
			bad = true // the reconcile does not end
		}
	}()
	for _, act := range []func(){func() {}, func() { l.want, l.resource.Generation = "v2", 2 }, func() { l.resource.Deleting = true }} {
		act()
		if l.settle() != nil {
			return true
		}
		if !l.resource.Deleting && l.reservedBy == nil && (len(l.cloud.alive()) != 1 || l.stored == nil || l.stored.Ref != l.resource.ExternalName) {
			return true
		}
		l.elapse(10 * time.Second)
	}
	if l.reservedBy == nil && (!l.gone || len(l.cloud.alive()) > 0) {
		return true
	}
	return len(l.cloud.violations) > 0 || l.cloud.creations > 1
}
