package operation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// keep makes the external resource what the managed resource wants it to be.
func (s State) keep() Step {
	switch {
	case !s.Resource.Claimed:
		return Step{Do: Claim}
	case s.Binding == nil:
		return s.reserve()
	case s.Binding.Shared && s.Resource.Policies.Exclusive():
		return s.takeAlone()
	case s.ref() == "":
		return s.create() // it has no identity yet, so that there is nothing to look at
	}
	if step, done := s.look(); done {
		return step
	}
	switch s.Look.Presence {
	case external.Absent:
		return s.missing()
	case external.Deleting:
		return rest(resource.NameDeleting, "the external resource is being deleted, and not by this object", s.soon()).
			with(Said{Status: metav1.ConditionFalse, Reason: resource.Unavailable, Message: s.Look.State})
	default:
	}
	return s.present()
}

// missing is about an external resource that isn't there: not yet, or not any
// more, which is believed only once the API shows all that has happened.
func (s State) missing() Step {
	if s.Binding.Ref == "" {
		return s.create()
	}
	if left := s.unshown(external.Create); left > 0 {
		return s.settles(left).with(Said{Status: metav1.ConditionFalse, Reason: resource.Creating})
	}
	if !s.Resource.Policies.Allow(resource.ActionCreate) {
		return s.create()
	}
	if s.Binding.AbsentSince == nil {
		if s.Caps.Settle > 0 {
			return s.record(func(b *binding.BindingSpec) {
				at := metav1.NewMicroTime(s.Now)
				b.AbsentSince = &at
			})
		}
	} else if left := s.left(*s.Binding.AbsentSince); left > 0 {
		return rest(resource.ReconcileError, "the external resource isn't there; waiting until the external API shows all that has happened", left).
			with(Said{Status: metav1.ConditionFalse, Reason: resource.Unavailable})
	}
	if s.Caps.Naming == external.ProviderAssigned && s.Binding.Explicit {
		return s.cannotBeChosen().with(Said{Status: metav1.ConditionFalse, Reason: resource.Unavailable})
	}
	if step, done := s.disagrees(); done {
		return step
	}
	step := s.record(func(b *binding.BindingSpec) {
		b.Ref, b.Phase, b.AbsentSince, b.AbsentBefore = "", binding.BindingReserved, nil, nil
	})
	step.Event = Event{"ExternalResourceGone", fmt.Sprintf("the external resource %s has gone, and not by this object; it is made anew", s.Binding.Ref)}
	return step
}

// create begins a creation, if that is allowed.
func (s State) create() Step {
	switch {
	case s.Failed != nil:
		return Fails(s.Failed).with(Said{Status: metav1.ConditionFalse, Reason: resource.Creating})
	case !s.Resource.Policies.Allow(resource.ActionCreate):
		return rest(resource.ReconcileError, goneAndNotToBeMade, s.Resource.Poll).with(Said{Status: metav1.ConditionFalse, Reason: resource.Unavailable})
	case s.Caps.Naming == external.ProviderAssigned && s.Binding.Explicit:
		return s.cannotBeChosen()
	case s.mayBeLost():
		return s.trace()
	case s.Binding.AbsentBefore == nil:
		return s.record(func(b *binding.BindingSpec) {
			at := metav1.NewMicroTime(s.Now)
			b.AbsentBefore = &at
		})
	}
	return s.open(external.Create, binding.BindingCreating)
}

// present sees to an external resource that is there.
func (s State) present() Step {
	b := s.Binding
	switch {
	case b.Phase == binding.BindingReserved || b.Ref == "":
		return s.takeOn()
	case s.foreign():
		return rest(resource.Conflict, fmt.Sprintf("the external resource %s carries the mark of %s now; it is left alone", b.Ref, s.Look.Mark.Owner), s.soon())
	case s.Unreserved && !s.IDReserved && s.IDTaken != nil:
		return s.taken(s.IDTaken).with(s.ready())
	case s.Unreserved && !s.IDReserved:
		return Step{Do: ReserveID, Ref: external.Ref(b.Ref)}
	case b.AbsentSince != nil:
		return s.record(func(b *binding.BindingSpec) { b.AbsentSince = nil })
	case s.Resource.ExternalName != b.Ref && !s.Projected:
		return s.project()
	}
	if step, done := s.doubt(); done {
		return step
	}
	switch {
	case len(s.Look.LateInit) > 0 && s.Resource.Policies.Allow(resource.ActionLateInitialize) && !s.LateInitialized:
		return Step{Do: LateInitialize}
	case len(s.Look.Connection) > 0 && !s.Published:
		return Step{Do: Publish}
	case s.Failed != nil:
		return Fails(s.Failed).with(s.ready())
	case s.Look.UpToDate == external.No && s.Resource.Policies.Allow(resource.ActionUpdate):
		return s.openOnce(external.Update, binding.BindingUpdating).with(s.ready())
	case s.Look.UpToDate == external.CannotTell && s.Look.Ready != external.Yes:
		return s.busy()
	}
	after := s.Resource.Poll
	if s.Binding.Doubted != nil && s.mayDouble() {
		after = min(after, s.doubted())
	}
	return Step{
		Do: Rest, After: after, Ready: s.ready(),
		Synced: synced(metav1.ConditionTrue, resource.ReconcileSuccess, s.drift()),
	}
}

// drift tells of a difference that isn't ours to change.
func (s State) drift() string {
	if s.Look.UpToDate == external.No {
		return "the external resource differs, and spec.managementPolicies doesn't allow to update it: " + s.Look.Diff
	}
	return ""
}

// project writes the identity where people look for it.
func (s State) project() Step {
	step := Step{Do: Project, Ref: external.Ref(s.Binding.Ref)}
	if was := s.Resource.ExternalName; was != "" {
		step.Event = Event{"ExternalNameRestored", fmt.Sprintf("the annotation %s was %q and is set back to %q, which is bound", resource.ExternalNameAnnotation, was, s.Binding.Ref)}
	}
	return step
}

// ready is what the external resource tells of itself.
func (s State) ready() Said {
	message := s.Look.Message
	if message == "" {
		message = s.Look.State
	}
	switch s.Look.Ready {
	case external.Yes:
		return Said{Status: metav1.ConditionTrue, Reason: resource.Available}
	case external.No:
		return Said{Status: metav1.ConditionFalse, Reason: resource.Unavailable, Message: message}
	default:
		return Said{Status: metav1.ConditionUnknown, Reason: resource.Unavailable, Message: message}
	}
}

const goneAndNotToBeMade = "the external resource does not exist, and spec.managementPolicies doesn't allow to create it"

// cannotBeChosen is for a resource that somebody has named and that isn't there.
func (s State) cannotBeChosen() Step {
	return rest(resource.ReconcileError, fmt.Sprintf("there is no external resource %s, and the external API doesn't let its identity be chosen", s.ref()), s.Resource.Poll)
}
