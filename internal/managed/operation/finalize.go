package operation

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// maxFinalizers bounds, in bytes, how much of the other finalizers a message names.
const maxFinalizers = 256

// finalize deletes or orphans the external resource, then removes the finalizer of the
// managed resource. No operation is open by now.
func (s State) finalize() Step {
	b := s.Binding
	switch {
	case !s.Resource.HasFinalizer:
		return s.deleteBinding()
	case len(s.Resource.OtherFinalizers) > 0:
		return finish(resource.ReconcileError, "the external resource is deleted once the other finalizers are removed: "+diag.Truncate(strings.Join(s.Resource.OtherFinalizers, ", "), maxFinalizers), 0)
	case b == nil && s.Resource.ExternalName == "":
		return Step{Do: RemoveFinalizer} // the external API was never called
	case b == nil && s.ReservedBy != nil:
		return Step{Do: RemoveFinalizer} // the external resource belongs to another object
	case b == nil:
		return s.createBinding() // the binding was lost
	case b.Phase == binding.BindingTombstone, b.Phase == binding.BindingReleased:
		return Step{Do: RemoveFinalizer}
	}
	if step, done := s.checkDuplicates(); done {
		return step // also if it is orphaned: a second resource would never be reported later
	}
	if s.Resource.DeletesExternal && b.Shared {
		if step := s.makeExclusive(); step.Do != Finish || step.Err != nil {
			return step
		}
	}
	switch {
	case !s.Resource.DeletesExternal || b.Shared:
		return s.updateBinding(func(b *binding.BindingSpec) { b.Phase = binding.BindingReleased })
	case b.Phase == binding.BindingReserved && b.Ref == "" && !b.Explicit:
		return s.updateBinding(func(b *binding.BindingSpec) { b.Phase = binding.BindingReleased }) // there never was an external resource
	case s.ref() == "":
		return s.updateBinding(func(b *binding.BindingSpec) { b.Phase = binding.BindingReleased })
	}
	if step, done := s.observe(); done {
		return step
	}
	switch s.Observed.Presence {
	case external.Absent:
		return s.handleGone()
	case external.Deleting:
		return Step{Do: Finish, After: s.recheckInterval(), Synced: syncedCondition(metav1.ConditionUnknown, resource.OperationInProgress,
			"deleting the external resource: "+s.Observed.State)}
	default:
	}
	return s.deleteExternal()
}

// It starts only if the external resource belongs to the managed resource.
func (s State) deleteExternal() Step {
	b := s.Binding
	if b.Phase == binding.BindingReserved {
		if _, conflict := s.checkOwnership(); conflict != "" || s.IdentityReservedBy != nil {
			return s.updateBinding(func(b *binding.BindingSpec) { b.Phase = binding.BindingReleased })
		}
		return s.adopt()
	}
	if s.isForeign() {
		step := s.updateBinding(func(b *binding.BindingSpec) { b.Phase = binding.BindingReleased })
		step.Event = Event{"ExternalResourceLeft", fmt.Sprintf("the external resource %s carries the mark of %s and is not deleted", b.Ref,
			s.describeMarkOwner(s.Observed.Mark))}
		return step
	}
	if s.isReplaced() {
		step := s.updateBinding(func(b *binding.BindingSpec) { b.Phase = binding.BindingReleased })
		step.Event = Event{"ExternalResourceLeft",
			fmt.Sprintf("the external resource %s was deleted, and another client has created one with its name, which is not deleted", b.Ref)}
		return step
	}
	if s.ReservationMissing && !s.IdentityReserved {
		if s.IdentityReservedBy == nil {
			return Step{Do: ReserveIdentity, Ref: external.Ref(b.Ref)}
		}
		step := s.updateBinding(func(b *binding.BindingSpec) { b.Phase = binding.BindingReleased })
		step.Event = Event{"ExternalResourceLeft", fmt.Sprintf("the external resource %s belongs to %s by now and is not deleted", b.Ref,
			s.describeOwner(s.IdentityReservedBy.Owner))}
		return step
	}
	if s.OperationErr != nil {
		return Failure(s.OperationErr)
	}
	return s.openOperationOnce(external.Delete, binding.BindingDeleting)
}

// handleGone turns the binding into a tombstone once the external API has shown the external
// resource as absent for long enough.
func (s State) handleGone() Step {
	b := s.Binding
	if b.AbsentSince == nil {
		return s.updateBinding(func(b *binding.BindingSpec) {
			at := metav1.NewMicroTime(s.Now)
			b.AbsentSince, b.Phase = &at, binding.BindingDeleting
		})
	}
	if left := s.untilVisible(*b.AbsentSince); left > 0 {
		return Step{Do: Finish, After: left, Synced: syncedCondition(metav1.ConditionUnknown, resource.OperationInProgress,
			"the external resource seems to be gone; waiting until the external API shows all recent changes")}
	}
	return s.updateBinding(func(b *binding.BindingSpec) {
		until := metav1.NewMicroTime(s.Now.Add(s.Caps.Reuse))
		b.Phase, b.Until = binding.BindingTombstone, &until
	})
}

// deleteBinding deletes the binding of a managed resource that is being deleted and has lost
// our finalizer, unless the binding still reserves the key.
func (s State) deleteBinding() Step {
	if s.Binding != nil && (s.Binding.Phase == binding.BindingReleased || (s.Binding.Phase == binding.BindingTombstone && tombstoneTTL(*s.Binding, s.Now) <= 0)) {
		return Step{Do: DeleteBinding}
	}
	return Step{Do: Finish}
}

// tombstoneTTL is how long a tombstone still reserves the key. One without a time, which the
// controller does not write, no longer does.
func tombstoneTTL(b binding.BindingSpec, now time.Time) time.Duration {
	if b.Until == nil {
		return 0
	}
	return b.Until.Sub(now)
}

// Expire decides about the binding of a managed resource that is gone. A shared binding reserves no name and has
// created nothing, so it is deleted.
func Expire(b binding.BindingSpec, now metav1.MicroTime) Step {
	if b.Shared {
		return Step{Do: DeleteBinding}
	}
	switch b.Phase {
	case binding.BindingReleased, binding.BindingReserved:
		return Step{Do: DeleteBinding}
	case binding.BindingTombstone:
		if left := tombstoneTTL(b, now.Time); left > 0 {
			return Step{Do: Finish, After: left}
		}
		return Step{Do: DeleteBinding}
	case binding.BindingOrphaned:
		return Step{Do: Finish}
	default:
	}
	next := b.DeepCopy()
	next.Phase = binding.BindingOrphaned
	return Step{Do: UpdateBinding, Binding: next}
}
