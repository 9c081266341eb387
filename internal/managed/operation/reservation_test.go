package operation_test

import (
	"strings"
	"testing"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestALostReservationIsRecreated deletes the reservation of a bound identity.
func TestALostReservationIsRecreated(t *testing.T) {
	other := &binding.BindingSpec{Owner: binding.BindingOwner{Kind: "Thing", Name: "b"}, Phase: binding.BindingBound, Ref: "id-1"}
	cases := map[string]struct {
		state  func(*operation.State)
		do     operation.Do
		reason string
	}{
		"it is reserved":                 {state: func(*operation.State) {}, do: operation.Finish, reason: resource.ReconcileSuccess},
		"it is missing":                  {state: func(s *operation.State) { s.ReservationMissing = true }, do: operation.ReserveIdentity},
		"it was missing":                 {state: func(s *operation.State) { s.ReservationMissing, s.IdentityReserved = true, true }, do: operation.Finish, reason: resource.ReconcileSuccess},
		"another has taken the identity": {state: func(s *operation.State) { s.ReservationMissing, s.IdentityReservedBy = true, other }, do: operation.Finish, reason: resource.NameReserved},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := operation.State{
				Caps:     external.Caps{Naming: external.ProviderAssigned},
				Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true, ExternalName: "id-1"}, Now: start, MarkOwner: "us", DesiredKey: external.Key{Scope: "here", Type: "thing"},
				Observed: &external.Observation{Presence: external.Present, Ref: "id-1", Ready: external.Yes, UpToDate: external.Yes, Mark: &external.Mark{ID: "m", Owner: "us"}},
				Binding:  &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "u"}, Mark: "m", Phase: binding.BindingBound, Ref: "id-1"},
			}
			tc.state(&s)
			if step := operation.Next(s); step.Do != tc.do || step.Synced.Reason != tc.reason {
				t.Errorf("the next step is %s %+v", step.Do, step.Synced)
			}
		})
	}
}

// TestAResourceOfALostReservationIsNotDeleted deletes a managed resource whose reservation was deleted before, and perhaps
// taken by another one.
func TestAResourceOfALostReservationIsNotDeleted(t *testing.T) {
	other := &binding.BindingSpec{Owner: binding.BindingOwner{Kind: "Thing", Namespace: "prod", Name: "b"}, Phase: binding.BindingBound, Ref: "id-1"}
	cases := map[string]struct {
		state func(*operation.State)
		do    operation.Do
		phase binding.BindingPhase
	}{
		"it is reserved":                 {func(*operation.State) {}, operation.UpdateBinding, binding.BindingDeleting},
		"it is missing":                  {func(s *operation.State) { s.ReservationMissing = true }, operation.ReserveIdentity, ""},
		"it was missing":                 {func(s *operation.State) { s.ReservationMissing, s.IdentityReserved = true, true }, operation.UpdateBinding, binding.BindingDeleting},
		"another has taken the identity": {func(s *operation.State) { s.ReservationMissing, s.IdentityReservedBy = true, other }, operation.UpdateBinding, binding.BindingReleased},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := operation.State{
				Caps:     external.Caps{Naming: external.ProviderAssigned},
				Resource: operation.Resource{HasFinalizer: true, Deleting: true, DeletesExternal: true, ExternalName: "id-1"}, Now: start, DesiredKey: external.Key{Scope: "here", Type: "thing"},
				Observed: &external.Observation{Presence: external.Present, Ref: "id-1", Ready: external.Yes},
				Binding:  &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "u"}, Mark: "m", Phase: binding.BindingBound, Ref: "id-1"},
				Requests: map[external.Verb]external.Request{external.Delete: nil},
			}
			tc.state(&s)
			step := operation.Next(s)
			if step.Do != tc.do || tc.phase != "" && step.Binding.Phase != tc.phase {
				t.Errorf("the next step is %s, and the Binding %+v", step.Do, step.Binding)
			}
		})
	}
}

// TestNobodyIsToldTheOwnerInAnotherNamespace has a key that another managed resource has reserved.
func TestNobodyIsToldTheOwnerInAnotherNamespace(t *testing.T) {
	cases := map[string]struct{ own, other, want string }{
		"in the same namespace":     {"prod", "prod", "belongs to Thing prod/b"},
		"in another namespace":      {"prod", "secret", "belongs to a Thing of another namespace"},
		"cluster-scoped":            {"prod", "", "belongs to a cluster-scoped Thing"},
		"told a cluster-scoped one": {"", "prod", "belongs to Thing prod/b"},
		"both are cluster-scoped":   {"", "", "belongs to Thing b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			step := operation.Next(operation.State{
				Resource: operation.Resource{HasFinalizer: true, Owner: binding.BindingOwner{Kind: "Thing", Namespace: tc.own, Name: "a"}}, Now: start,
				ReservedBy: &binding.BindingSpec{Phase: binding.BindingBound, Owner: binding.BindingOwner{Kind: "Thing", Namespace: tc.other, Name: "b"}},
			})
			if step.Synced.Reason != resource.NameReserved || !strings.HasSuffix(step.Synced.Message, tc.want) {
				t.Errorf("got %+v", step.Synced)
			}
		})
	}
}
