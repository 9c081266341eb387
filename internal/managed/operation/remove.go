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

// mostNamed bounds, in bytes, how much of others' finalizers a message names.
const mostNamed = 256

// remove takes the external resource away, or lets go of it, and then lets the
// managed resource go. What was asked of the external API has been resolved by now.
func (s State) remove() Step {
	b := s.Binding
	switch {
	case !s.Resource.Claimed:
		return s.leave()
	case len(s.Resource.KeptBy) > 0:
		return rest(resource.ReconcileError, "the external resource is deleted once the finalizers of others have gone: "+diag.Cut(strings.Join(s.Resource.KeptBy, ", "), mostNamed), 0)
	case b == nil && s.Resource.ExternalName == "":
		return Step{Do: Unclaim} // nothing was ever asked of the external API
	case b == nil && s.Taken != nil:
		return Step{Do: Unclaim} // what is there is another's
	case b == nil:
		return s.reserve() // its binding was lost
	case b.Phase == binding.BindingTombstone, b.Phase == binding.BindingReleased:
		return Step{Do: Unclaim}
	}
	if step, done := s.doubt(); done {
		return step // also of what is to stay: nobody would ever be told of a second one
	}
	if s.Resource.Deletes && b.Shared {
		if step := s.takeAlone(); step.Do != Rest || step.Err != nil {
			return step
		}
	}
	switch {
	case !s.Resource.Deletes || b.Shared:
		return s.record(func(b *binding.BindingSpec) { b.Phase = binding.BindingReleased })
	case b.Phase == binding.BindingReserved && b.Ref == "" && !b.Explicit:
		return s.record(func(b *binding.BindingSpec) { b.Phase = binding.BindingReleased }) // it never had one
	case s.ref() == "":
		return s.record(func(b *binding.BindingSpec) { b.Phase = binding.BindingReleased })
	}
	if step, done := s.look(); done {
		return step
	}
	switch s.Look.Presence {
	case external.Absent:
		return s.gone()
	case external.Deleting:
		return Step{Do: Rest, After: s.soon(), Synced: synced(metav1.ConditionUnknown, resource.OperationInProgress, "deleting the external resource: "+s.Look.State)}
	default:
	}
	return s.destroy()
}

// destroy begins the deletion of what is ours, and of nothing else.
func (s State) destroy() Step {
	b := s.Binding
	if b.Phase == binding.BindingReserved {
		if _, why := s.ours(); why != "" || s.IDTaken != nil {
			return s.record(func(b *binding.BindingSpec) { b.Phase = binding.BindingReleased })
		}
		return s.takeOn()
	}
	if s.foreign() {
		step := s.record(func(b *binding.BindingSpec) { b.Phase = binding.BindingReleased })
		step.Event = Event{"ExternalResourceLeft", fmt.Sprintf("the external resource %s carries the mark of %s and is left alone", b.Ref, s.Look.Mark.Owner)}
		return step
	}
	if s.Failed != nil {
		return Fails(s.Failed)
	}
	return s.openOnce(external.Delete, binding.BindingDeleting)
}

// gone buries what isn't there any more, once the external API shows all that has
// happened.
func (s State) gone() Step {
	b := s.Binding
	if b.AbsentSince == nil {
		return s.record(func(b *binding.BindingSpec) {
			at := metav1.NewMicroTime(s.Now)
			b.AbsentSince, b.Phase = &at, binding.BindingDeleting
		})
	}
	if left := s.left(*b.AbsentSince); left > 0 {
		return Step{Do: Rest, After: left, Synced: synced(metav1.ConditionUnknown, resource.OperationInProgress, "the external resource seems to be gone; waiting until the external API shows all that has happened")}
	}
	return s.record(func(b *binding.BindingSpec) {
		until := metav1.NewMicroTime(s.Now.Add(s.Caps.Reuse))
		b.Phase, b.Until = binding.BindingTombstone, &until
	})
}

// leave sees to what is left of a managed resource that is being deleted and isn't
// ours any more.
func (s State) leave() Step {
	if s.Binding != nil && (s.Binding.Phase == binding.BindingReleased || (s.Binding.Phase == binding.BindingTombstone && kept(*s.Binding, s.Now) <= 0)) {
		return Step{Do: Forget}
	}
	return Step{Do: Rest}
}

// kept is how long a tombstone keeps the key; one that doesn't say, which isn't of our
// writing, keeps it no longer.
func kept(b binding.BindingSpec, now time.Time) time.Duration {
	if b.Until == nil {
		return 0
	}
	return b.Until.Sub(now)
}

// Expire says what to do about a binding whose managed resource has gone. One that
// others could share keeps no name from anybody, and has made nothing.
func Expire(b binding.BindingSpec, now metav1.MicroTime) Step {
	if b.Shared {
		return Step{Do: Forget}
	}
	switch b.Phase {
	case binding.BindingReleased, binding.BindingReserved:
		return Step{Do: Forget}
	case binding.BindingTombstone:
		if left := kept(b, now.Time); left > 0 {
			return Step{Do: Rest, After: left}
		}
		return Step{Do: Forget}
	case binding.BindingOrphaned:
		return Step{Do: Rest}
	default:
	}
	next := b.DeepCopy()
	next.Phase = binding.BindingOrphaned
	return Step{Do: Record, Binding: next}
}
