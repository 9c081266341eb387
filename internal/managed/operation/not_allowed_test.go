package operation_test

import (
	"fmt"
	"testing"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestADeniedAdoptionLeavesTheExternalResource observes an external resource that the
// configuration does not allow to adopt.
func TestADeniedAdoptionLeavesTheExternalResource(t *testing.T) {
	const denied = "the configuration does not allow it"
	cases := map[string]struct {
		reason   string
		change   func(*operation.State)
		want     operation.Do
		synced   string
		released bool
	}{
		"named by the annotation": {
			"a tenant can name every resource", func(s *operation.State) { s.Binding.Explicit = true }, operation.Finish, resource.NotAllowed, false,
		},
		"adopted by the annotation": {
			"", func(s *operation.State) { s.Resource.AdoptUnmarked = true }, operation.Finish, resource.NotAllowed, false,
		},
		"shared": {
			"a shared resource may be updated", func(s *operation.State) { s.Binding.Shared = true }, operation.Finish, resource.NotAllowed, false,
		},
		"shared, and bound": {
			"it was bound before the configuration denied it",
			func(s *operation.State) {
				s.Binding.Shared, s.Binding.Ref, s.Binding.Phase = true, "a", binding.BindingBound
			},
			operation.Finish, resource.NotAllowed, false,
		},
		"marked by another owner": {
			"the owner is named", func(s *operation.State) {
				s.Binding.Explicit, s.Observed.Mark = true, &external.Mark{ID: "x", Owner: "other"}
			}, operation.Finish, resource.Conflict, false,
		},
		"its own, by its mark": {
			"only the Binding was lost", func(s *operation.State) { s.Observed.Mark = &external.Mark{ID: "x", Owner: "me"} }, operation.UpdateBinding, "", false,
		},
		"deleted": {
			"the external resource stays", func(s *operation.State) { s.Binding.Explicit, s.Resource.Deleting = true, true }, operation.UpdateBinding, "", true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, ExternalName: "a", DeletesExternal: true}, Now: start, MarkOwner: "me",
				DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"}, Caps: external.Caps{Marked: true},
				Observed: &external.Observation{Presence: external.Present, Ref: "a", UpToDate: external.No, AdoptionDenied: denied},
				Binding:  &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingReserved},
			}
			if name == "shared" || name == "shared, and bound" {
				s.Resource.Policies = policies("OU")
			}
			tc.change(&s)
			step := operation.Next(s)
			if step.Do != tc.want || step.Synced.Reason != tc.synced {
				t.Fatalf("%s: the next step is %s %+v", tc.reason, step.Do, step.Synced)
			}
			if tc.synced == resource.NotAllowed && (step.Synced.Message != denied || step.After == 0 || step.Err != nil) {
				t.Errorf("got %+v", step)
			}
			if tc.released != (step.Binding != nil && step.Binding.Phase == binding.BindingReleased) {
				t.Errorf("the Binding is %+v", step.Binding)
			}
		})
	}
}

func TestWhatIsNotAllowedIsNoFailure(t *testing.T) {
	step := operation.Failure(fmt.Errorf("observe: %w", &external.NotAllowedError{Message: "no"}))
	if step.Err != nil || step.After == 0 || step.Synced.Reason != resource.NotAllowed || step.Synced.Message != "no" {
		t.Errorf("got %+v", step)
	}
}

func TestOwnerOfABinding(t *testing.T) {
	own := binding.BindingSpec{Owner: binding.BindingOwner{Kind: "Role", Namespace: "team", Name: "app"}, Ref: "app", Phase: binding.BindingBound}
	cases := map[string]struct {
		change func(*binding.BindingSpec)
		want   bool
	}{
		"bound":    {func(*binding.BindingSpec) {}, true},
		"updating": {func(b *binding.BindingSpec) { b.Phase = binding.BindingUpdating }, true},
		"deleting": {func(b *binding.BindingSpec) { b.Phase = binding.BindingDeleting }, true},
		"reserved": {func(b *binding.BindingSpec) { b.Ref, b.Phase = "", binding.BindingReserved }, false},
		"shared":   {func(b *binding.BindingSpec) { b.Shared = true }, false},
		"orphaned": {func(b *binding.BindingSpec) { b.Phase = binding.BindingOrphaned }, false},
		"released": {func(b *binding.BindingSpec) { b.Phase = binding.BindingReleased }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := own
			tc.change(&b)
			if got := operation.Owner(b); (got != nil) != tc.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}
