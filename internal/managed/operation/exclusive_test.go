package operation_test

import (
	"errors"
	"testing"
	"time"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestASharedBindingBecomesExclusive allows creation and deletion of an external resource that
// was only observed before.
func TestASharedBindingBecomesExclusive(t *testing.T) {
	for class, c := range classes {
		t.Run(class, func(t *testing.T) {
			l := newSimulation(c.caps, 0, policies("O"))
			ref := external.Ref("a")
			if c.caps.Naming == external.ProviderAssigned {
				ref = "id-1"
			}
			l.cloud.things = []*thing{{ref: ref, request: "v1", created: start.Add(-time.Hour)}}
			l.resource.ExternalName = string(ref)
			if err := l.settle(); err != nil || !l.stored.Shared || l.stored.Ref != string(ref) {
				t.Fatalf("%v: %+v", err, l.stored)
			}
			l.resource.Policies, l.resource.DeletesExternal = policies("*"), true
			if err := l.settle(); err != nil || l.stored.Shared || !l.reserved[ref] {
				t.Fatalf("its place isn't reserved: %v: %+v", err, l.stored)
			}
			l.resource.Deleting = true
			if err := l.settle(); err != nil {
				t.Error(err)
			}
			if l.elapse(time.Minute); !l.gone || len(l.cloud.alive()) > 0 {
				t.Errorf("it is gone: %t, and %d external resources are left", l.gone, len(l.cloud.alive()))
			}
		})
	}
}

// TestASharedBindingOfAForeignResourceStaysShared does the same with an external resource of
// another owner.
func TestASharedBindingOfAForeignResourceStaysShared(t *testing.T) {
	other := &binding.BindingSpec{Owner: binding.BindingOwner{Kind: "Thing", Namespace: "other", Name: "b"}, Phase: binding.BindingBound, Ref: "a"}
	cases := map[string]struct {
		mark     *external.Mark
		reserved *binding.BindingSpec
		reason   string
	}{
		"by its mark":                 {mark: &external.Mark{ID: "x", Owner: "them"}, reason: resource.Conflict},
		"without a mark":              {reason: resource.Conflict},
		"reserved by another binding": {mark: &external.Mark{ID: "m", Owner: "us"}, reserved: other, reason: resource.NameReserved},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true, ExternalName: "a"}, Now: start, MarkOwner: "us", DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"},
				Observed: &external.Observation{Presence: external.Present, Ref: "a", Mark: tc.mark, UpToDate: external.No}, IdentityReservedBy: tc.reserved,
				Binding: &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingBound, Ref: "a", Shared: true},
			}
			if step := operation.Next(s); step.Do != operation.Finish || step.Synced.Reason != tc.reason {
				t.Errorf("the next step is %s %+v", step.Do, step.Synced)
			}
			s.Resource.Deleting = true
			if step := operation.Next(s); step.Do != operation.UpdateBinding || step.Binding.Phase != binding.BindingReleased {
				t.Errorf("it isn't let go of: %s %+v", step.Do, step.Synced)
			}
		})
	}
}

// TestASharedBindingIsNotReleasedBeforeItsOwnerIsKnown deletes a managed resource whose policies now allow the
// deletion of its external resource.
func TestASharedBindingIsNotReleasedBeforeItsOwnerIsKnown(t *testing.T) {
	present := &external.Observation{Presence: external.Present, Ref: "a", Mark: &external.Mark{ID: "m", Owner: "us"}}
	cases := map[string]struct {
		observed *external.Observation
		err      error
		want     operation.Do
	}{
		"not observed yet":      {nil, nil, operation.Observe},
		"it cannot be observed": {nil, errors.New("no"), operation.Finish},
		"its name is free":      {present, nil, operation.ReserveIdentity},
	}
	for name, tc := range cases {
		step := operation.Next(operation.State{
			Resource: operation.Resource{HasFinalizer: true, Deleting: true, DeletesExternal: true, ExternalName: "a"}, Now: start, MarkOwner: "us", DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"},
			Observed: tc.observed, ObserveErr: tc.err,
			Binding: &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingBound, Ref: "a", Shared: true},
		})
		if step.Do != tc.want || (step.Err != nil) != (tc.err != nil) {
			t.Errorf("%s: the next step is %s, %v", name, step.Do, step.Err)
		}
	}
}
