package operation_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// digestOfNothing is the digest of an empty request: the first half of its SHA-256.
const digestOfNothing = "e3b0c44298fc1c149afbf4c8996fb924"

// TestADeletionIsNotRepeatedAtOnce expects that the reconcile ends after a deletion, even if the
// external API still shows the resource.
func TestADeletionIsNotRepeatedAtOnce(t *testing.T) {
	now := metav1.NewMicroTime(start)
	cases := map[string]struct {
		failed *external.OpError
		ended  *metav1.MicroTime
		want   operation.Do
	}{
		"the first deletion is called":               {want: operation.UpdateBinding},
		"a recent deletion is awaited":               {ended: &now, want: operation.Finish},
		"an old deletion without effect is repeated": {ended: &metav1.MicroTime{Time: start.Add(-time.Hour)}, want: operation.UpdateBinding},
		"a failed deletion ends the reconcile":       {failed: &external.OpError{Class: external.Failed, Code: "InUse"}, want: operation.Finish},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newSimulation(external.Caps{}, 0, policies("*"))
			l.resource.Deleting, l.resource.HasFinalizer = true, true
			b := &binding.BindingSpec{Ref: "a", Phase: binding.BindingDeleting}
			if tc.ended != nil {
				b.Ended = &binding.BindingEnded{Verb: string(external.Delete), Request: digestOfNothing, At: *tc.ended}
			}
			got := operation.Next(operation.State{
				Resource: l.resource, Now: start, OperationErr: tc.failed, Binding: b, Caps: external.Caps{Settle: time.Second},
				Requests: map[external.Verb]external.Request{external.Delete: nil},
				Observed: &external.Observation{Presence: external.Present, Ref: "a"},
			})
			if got.Do != tc.want {
				t.Errorf("it does %s", got.Do)
			}
			if got.Do == operation.Finish && got.After == 0 && got.Err == nil {
				t.Error("no other reconcile is requested")
			}
		})
	}
}

// TestAManagedResourceWithoutAKeyIsDeletedAtOnce deletes one of two managed resources of the same
// external resource: the one that waits for the key.
func TestAManagedResourceWithoutAKeyIsDeletedAtOnce(t *testing.T) {
	other := &binding.BindingSpec{Owner: binding.BindingOwner{Kind: "Thing", Namespace: "other", Name: "a"}, Phase: binding.BindingBound, Ref: "a"}
	key := binding.BindingKey{Scope: "here", Type: "thing"}
	cases := map[string]operation.State{
		"the caller assigns names": {Caps: external.Caps{}, DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"}, ReservedBy: other},
		"the API assigns names": {
			Caps: external.Caps{Naming: external.ProviderAssigned}, DesiredKey: external.Key{Scope: "here", Type: "thing"}, IdentityReservedBy: other,
			Observed: &external.Observation{Presence: external.Present, Ref: "a"},
			Binding:  &binding.BindingSpec{Key: key, Mark: "m", Phase: binding.BindingReserved, Explicit: true},
		},
	}
	for name, s := range cases {
		t.Run(name, func(t *testing.T) {
			s.Resource, s.Now = operation.Resource{HasFinalizer: true, Deleting: true, DeletesExternal: true, ExternalName: "a"}, start
			step := operation.Next(s)
			if released := step.Do == operation.UpdateBinding && step.Binding.Phase == binding.BindingReleased; step.Do != operation.RemoveFinalizer && !released {
				t.Errorf("it stays as long as the other has it: %s %s", step.Do, step.Synced.Reason)
			}
		})
	}
}

// TestATombstoneWithoutATimeExpires has a tombstone that a user has written.
func TestATombstoneWithoutATimeExpires(t *testing.T) {
	b := binding.BindingSpec{Phase: binding.BindingTombstone}
	if step := operation.Expire(b, metav1.NewMicroTime(start)); step.Do != operation.DeleteBinding {
		t.Errorf("it expires by %s", step.Do)
	}
	if step := operation.Next(operation.State{Resource: operation.Resource{Deleting: true}, Now: start, Binding: &b}); step.Do != operation.DeleteBinding {
		t.Errorf("its resource goes by %s", step.Do)
	}
	if step := operation.Next(operation.State{Resource: operation.Resource{HasFinalizer: true}, Now: start, ReservedBy: &b}); step.Do != operation.Finish {
		t.Errorf("who waits for it does %s", step.Do)
	}
}

// TestExpireKeepsBindingsOfUnknownResources has managed resources that were deleted without their
// finalizer.
func TestExpireKeepsBindingsOfUnknownResources(t *testing.T) {
	at := metav1.NewMicroTime(start)
	later := metav1.NewMicroTime(start.Add(time.Minute))
	open := &binding.BindingOperation{Verb: "Update", Attempt: 3, StartedAt: at}
	cases := map[string]struct {
		b    binding.BindingSpec
		want operation.Do
	}{
		"a bound name stays reserved":                       {binding.BindingSpec{Phase: binding.BindingBound, Ref: "a"}, operation.UpdateBinding},
		"an orphaned binding stays":                         {binding.BindingSpec{Phase: binding.BindingOrphaned, Ref: "a"}, operation.Finish},
		"a shared binding reserves nothing":                 {binding.BindingSpec{Phase: binding.BindingBound, Ref: "a", Shared: true}, operation.DeleteBinding},
		"a shared binding with an open update":              {binding.BindingSpec{Phase: binding.BindingUpdating, Ref: "a", Shared: true, Operation: open}, operation.DeleteBinding},
		"a shared binding that is orphaned":                 {binding.BindingSpec{Phase: binding.BindingOrphaned, Ref: "a", Shared: true}, operation.DeleteBinding},
		"a deleted resource's name stays reserved":          {binding.BindingSpec{Phase: binding.BindingTombstone, Until: &later}, operation.Finish},
		"a deleted resource's name may be reused":           {binding.BindingSpec{Phase: binding.BindingTombstone, Until: &at}, operation.DeleteBinding},
		"a released binding":                                {binding.BindingSpec{Phase: binding.BindingReleased}, operation.DeleteBinding},
		"nothing was created":                               {binding.BindingSpec{Phase: binding.BindingReserved}, operation.DeleteBinding},
		"a creation with an unknown outcome stays reserved": {binding.BindingSpec{Phase: binding.BindingCreating, Operation: &binding.BindingOperation{Verb: "Create", Attempt: 1, StartedAt: at}}, operation.UpdateBinding},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if step := operation.Expire(tc.b, at); step.Do != tc.want {
				t.Errorf("it expires by %s", step.Do)
			}
		})
	}
}

// TestOtherFinalizersAreNamed deletes a managed resource with finalizers of other controllers.
func TestOtherFinalizersAreNamed(t *testing.T) {
	l := newSimulation(external.Caps{}, 0, policies("*"))
	l.resource.Deleting, l.resource.HasFinalizer, l.resource.OtherFinalizers = true, true, []string{"example.com/hold", "example.com/guard"}
	got := operation.Next(operation.State{Resource: l.resource, Now: start, Binding: &binding.BindingSpec{Ref: "a", Phase: binding.BindingBound}})
	if got.Do != operation.Finish || !strings.Contains(got.Synced.Message, "example.com/hold, example.com/guard") {
		t.Errorf("it does %s and says %q", got.Do, got.Synced.Message)
	}
}

// TestABindingIsDeletedWithItsResource has managed resources that are being deleted and have lost
// our finalizer.
func TestABindingIsDeletedWithItsResource(t *testing.T) {
	at, later := metav1.NewMicroTime(start), metav1.NewMicroTime(start.Add(time.Minute))
	cases := map[string]struct {
		b    *binding.BindingSpec
		want operation.Do
	}{
		"without a binding nothing is left":     {nil, operation.Finish},
		"a released binding is deleted":         {&binding.BindingSpec{Phase: binding.BindingReleased}, operation.DeleteBinding},
		"a tombstone reserves its name":         {&binding.BindingSpec{Phase: binding.BindingTombstone, Until: &later}, operation.Finish},
		"an expired tombstone is deleted":       {&binding.BindingSpec{Phase: binding.BindingTombstone, Until: &at}, operation.DeleteBinding},
		"the external resource may exist still": {&binding.BindingSpec{Phase: binding.BindingBound, Ref: "a"}, operation.Finish},
	}
	for name, tc := range cases {
		if step := operation.Next(operation.State{Resource: operation.Resource{Deleting: true}, Now: start, Binding: tc.b}); step.Do != tc.want {
			t.Errorf("%s: it does %s", name, step.Do)
		}
	}
}
