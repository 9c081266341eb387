package operation_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
			"no message tells a tenant whose it is", func(s *operation.State) {
				s.Binding.Explicit, s.Observed.Mark = true, &external.Mark{ID: "x", Owner: "other"}
			}, operation.Finish, resource.NotAllowed, false,
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

// TestOnlyAnOpenCreationBindsWhatMayNotBeAdopted has a resource without a mark appear after an attempt to
// create it. A tenant can make an attempt that fails for certain, and wait until somebody else creates the
// resource, or name one as the result of an attempt whose outcome is unknown.
func TestOnlyAnOpenCreationBindsWhatMayNotBeAdopted(t *testing.T) {
	at := metav1.NewMicroTime(start.Add(-time.Minute))
	open := func(b *binding.BindingSpec) {
		b.Phase, b.Operation = binding.BindingCreating, &binding.BindingOperation{Verb: "Create", Attempt: 1, StartedAt: at}
	}
	cases := map[string]struct {
		naming external.Naming
		change func(*binding.BindingSpec)
		bound  bool
	}{
		"the attempt was rejected": {external.CallerAssigned, func(*binding.BindingSpec) {}, false},
		"its outcome is unknown":   {external.CallerAssigned, open, true},
		"a name of the annotation": {external.CallerAssigned, func(b *binding.BindingSpec) { open(b); b.Explicit = true }, true},
		"the creation has failed": {external.CallerAssigned, func(b *binding.BindingSpec) {
			open(b)
			b.Operation.Failed = &at
		}, false},
		"the user has named it": {external.ProviderAssigned, func(b *binding.BindingSpec) {
			open(b)
			b.Explicit, b.Unresolved = true, &binding.BindingUnresolved{Since: at}
		}, false},
		"the API has named it": {external.ProviderAssigned, func(b *binding.BindingSpec) { open(b); b.Operation.Ref = "a" }, true},
	}
	for name, tc := range cases {
		for _, denied := range []string{"the configuration does not allow it", ""} {
			for _, deleting := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/denied: %t/deleting: %t", name, denied != "", deleting), func(t *testing.T) {
					s := operation.State{
						Resource: operation.Resource{HasFinalizer: true, ExternalName: "a", DeletesExternal: true, Deleting: deleting}, Now: start, MarkOwner: "me",
						Caps: external.Caps{Naming: tc.naming, Settle: 10 * time.Second}, IdentityReserved: true,
						Observed: &external.Observation{Presence: external.Present, Ref: "a", UpToDate: external.No, AdoptionDenied: denied},
						Binding:  &binding.BindingSpec{Key: binding.BindingKey{Name: "a"}, Mark: "m", Phase: binding.BindingReserved, AbsentBefore: &at, Attempts: 1},
					}
					tc.change(s.Binding)
					step := operation.Next(s)
					bound := step.Binding != nil && step.Binding.Phase == binding.BindingBound && step.Binding.Ref == "a"
					if deleting && s.Binding.Operation == nil {
						return // nothing is open, and nothing is looked for
					}
					if want := tc.bound || denied == ""; bound != want {
						t.Errorf("bound: %t, and the step is %s %+v %+v", bound, step.Do, step.Synced, step.Binding)
					}
				})
			}
		}
	}
}

// TestARejectedCreationProvesNothingAboutLaterResources rejects a creation of an API that shows changes late.
func TestARejectedCreationProvesNothingAboutLaterResources(t *testing.T) {
	at := metav1.NewMicroTime(start)
	s := operation.State{
		Resource: operation.Resource{HasFinalizer: true}, Now: start, Caps: external.Caps{Settle: 10 * time.Second},
		Binding: &binding.BindingSpec{
			Phase: binding.BindingCreating, AbsentBefore: &at, Attempts: 1, Operation: &binding.BindingOperation{Verb: "Create", Attempt: 1, StartedAt: at},
		},
	}
	s.SetAnswer(external.Op{Err: &external.OpError{Class: external.Rejected}}, nil)
	if step := operation.Next(s); step.Binding == nil || step.Binding.AbsentBefore != nil || step.Binding.Operation != nil {
		t.Errorf("got %s %+v", step.Do, step.Binding)
	}
}

// TestAResourceFoundByItsOwnerAloneIsNotAdopted has a resource with a tag that names the managed resource: without
// the Binding, nothing shows who has written it.
func TestAResourceFoundByItsOwnerAloneIsNotAdopted(t *testing.T) {
	for _, denied := range []string{"the configuration does not allow it", ""} {
		found := external.Observation{Presence: external.Present, Ref: "id-1", Mark: &external.Mark{ID: "x", Owner: "me"}, AdoptionDenied: denied}
		step := operation.Next(operation.State{
			Resource: operation.Resource{HasFinalizer: true}, Now: start, MarkOwner: "me", SearchedByOwner: true, FoundByOwner: []external.Observation{found},
			Caps:    external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true},
			Binding: &binding.BindingSpec{Mark: "m", Phase: binding.BindingReserved},
		})
		if refused := step.Do == operation.Finish && step.Synced.Reason == resource.NotAllowed; refused != (denied != "") {
			t.Errorf("denied %q: %s %+v", denied, step.Do, step.Synced)
		}
	}
}
