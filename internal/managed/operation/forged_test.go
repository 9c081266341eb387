package operation_test

import (
	"fmt"
	"testing"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestAForgedMarkDoesNotOutweighABinding has an object name the resource that another one's Binding has, while
// somebody has written its own mark into the tags of the resource.
func TestAForgedMarkDoesNotOutweighABinding(t *testing.T) {
	other := &binding.BindingSpec{Owner: binding.BindingOwner{Kind: "VPC", Namespace: "other", Name: "main"}, Ref: "vpc-1", Phase: binding.BindingBound}
	for _, deleting := range []bool{false, true} {
		t.Run(fmt.Sprintf("deleting: %t", deleting), func(t *testing.T) {
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, ExternalName: "vpc-1", DeletesExternal: true, Deleting: deleting}, Now: start, MarkOwner: "me",
				Caps:     external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true},
				Observed: &external.Observation{Presence: external.Present, Ref: "vpc-1", UpToDate: external.No, Mark: &external.Mark{ID: "x", Owner: "me"}},
				Binding:  &binding.BindingSpec{Mark: "m", Explicit: true, Phase: binding.BindingReserved},
			}
			if step := operation.Next(s); step.Do != operation.ReserveIdentity || step.Ref != "vpc-1" {
				t.Fatalf("before the identity is reserved: %s %+v", step.Do, step.Synced)
			}
			s.IdentityReservedBy = other
			step := operation.Next(s)
			refused := step.Do == operation.Finish && step.Synced.Reason == resource.NameReserved
			released := step.Do == operation.UpdateBinding && step.Binding.Phase == binding.BindingReleased
			if !deleting && !refused || deleting && !released {
				t.Errorf("the next step is %s %+v, and the Binding %+v", step.Do, step.Synced, step.Binding)
			}
		})
	}
}

// TestAForgedMarkStopsChanges has somebody write another owner's mark into the tags of a bound resource: it is neither
// updated nor deleted.
func TestAForgedMarkStopsChanges(t *testing.T) {
	for _, deleting := range []bool{false, true} {
		t.Run(fmt.Sprintf("deleting: %t", deleting), func(t *testing.T) {
			step := operation.Next(operation.State{
				Resource: operation.Resource{HasFinalizer: true, ExternalName: "vpc-1", DeletesExternal: true, Deleting: deleting}, Now: start, MarkOwner: "me",
				Caps:     external.Caps{Naming: external.ProviderAssigned, Marked: true},
				Observed: &external.Observation{Presence: external.Present, Ref: "vpc-1", UpToDate: external.No, Mark: &external.Mark{ID: "x", Owner: "other"}},
				Binding:  &binding.BindingSpec{Mark: "m", Ref: "vpc-1", Phase: binding.BindingBound},
			})
			refused := step.Do == operation.Finish && step.Synced.Reason == resource.Conflict
			left := step.Do == operation.UpdateBinding && step.Binding.Phase == binding.BindingReleased && step.Event.Reason == "ExternalResourceLeft"
			if !deleting && !refused || deleting && !left {
				t.Errorf("the next step is %s %+v, and the Binding %+v", step.Do, step.Synced, step.Binding)
			}
		})
	}
}
