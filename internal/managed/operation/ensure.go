package operation

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

func (s State) ensure() Step {
	switch {
	case !s.Resource.HasFinalizer:
		return Step{Do: AddFinalizer}
	case s.Binding == nil:
		return s.createBinding()
	case s.Binding.Shared && s.Resource.Policies.Exclusive():
		return s.makeExclusive()
	case s.isExplicit() != s.Binding.Explicit:
		return s.updateBinding(func(b *binding.BindingSpec) { b.Explicit = s.isExplicit() })
	case s.ref() == "":
		return s.create() // there is no identity to observe yet
	}
	if step, done := s.observe(); done {
		return step
	}
	switch s.Observed.Presence {
	case external.Absent:
		return s.handleAbsent()
	case external.Deleting:
		return finish(resource.NameDeleting, "the external resource is being deleted, although this object is not", s.recheckInterval()).
			with(Condition{Status: metav1.ConditionFalse, Reason: resource.Unavailable, Message: s.Observed.State})
	default:
	}
	return s.handlePresent()
}

// That a bound one is gone counts only once the API shows the effects of all earlier calls.
func (s State) handleAbsent() Step {
	if s.Binding.Ref == "" {
		return s.create()
	}
	if left := s.untilVisibleAfter(external.Create); left > 0 {
		return s.awaitVisible(left).with(Condition{Status: metav1.ConditionFalse, Reason: resource.Creating})
	}
	if !s.Resource.Policies.Allow(resource.ActionCreate) {
		return s.create()
	}
	if s.Binding.AbsentSince == nil {
		if s.Caps.Settle > 0 {
			return s.updateBinding(func(b *binding.BindingSpec) {
				at := metav1.NewMicroTime(s.Now)
				b.AbsentSince = &at
			})
		}
	} else if left := s.untilVisible(*s.Binding.AbsentSince); left > 0 {
		return finish(resource.ReconcileError, "the external resource does not exist; waiting until the external API shows all recent changes", left).
			with(Condition{Status: metav1.ConditionFalse, Reason: resource.Unavailable})
	}
	if s.Caps.Naming == external.ProviderAssigned && s.Binding.Explicit && s.Resource.ExternalName == s.Binding.Ref {
		return s.identityNotChoosable().with(Condition{Status: metav1.ConditionFalse, Reason: resource.Unavailable})
	}
	if step, done := s.checkDisagreement(); done {
		return step
	}
	step := s.updateBinding(func(b *binding.BindingSpec) {
		b.Ref, b.StaleName, b.Incarnation, b.Phase, b.AbsentSince, b.AbsentBefore = "", b.Ref, "", binding.BindingReserved, nil, nil
	})
	next := "it is created again"
	if name := s.Resource.ExternalName; s.Caps.Naming == external.ProviderAssigned && name != "" && name != s.Binding.Ref {
		next = "the annotation names " + name + " instead"
	}
	step.Event = Event{"ExternalResourceGone", fmt.Sprintf("the external resource %s was deleted, although this object was not; %s", s.Binding.Ref, next)}
	return step
}

// isExplicit reports whether the managed resource names an external resource. Where the API assigns
// identities, the annotation can name one, or cease to, until one is bound.
func (s State) isExplicit() bool {
	b := s.Binding
	if s.Caps.Naming != external.ProviderAssigned || b.Phase != binding.BindingReserved || b.Ref != "" {
		return b.Explicit
	}
	return s.Resource.ExternalName != "" && s.Resource.ExternalName != b.StaleName
}

// It starts a creation only if the policies allow it.
func (s State) create() Step {
	switch {
	case s.OperationErr != nil:
		return Failure(s.OperationErr).with(Condition{Status: metav1.ConditionFalse, Reason: resource.Creating})
	case !s.Resource.Policies.Allow(resource.ActionCreate):
		message := absentAndNotCreated
		if s.ref() == "" {
			message = unnamedAndNotCreated
		}
		return finish(resource.ReconcileError, message, s.Resource.PollInterval).with(Condition{Status: metav1.ConditionFalse, Reason: resource.Unavailable})
	case s.Caps.Naming == external.ProviderAssigned && s.Binding.Explicit:
		return s.identityNotChoosable()
	case s.mayHaveLostBinding():
		return s.recoverBinding()
	case s.Binding.AbsentBefore == nil:
		return s.updateBinding(func(b *binding.BindingSpec) {
			at := metav1.NewMicroTime(s.Now)
			b.AbsentBefore = &at
		})
	}
	return s.openOperation(external.Create, binding.BindingCreating)
}

func (s State) handlePresent() Step {
	b := s.Binding
	switch {
	case b.Phase == binding.BindingReserved || b.Ref == "":
		return s.adopt()
	case b.Shared && s.Observed.AdoptionDenied != "":
		return s.refuse(s.Observed.AdoptionDenied)
	case s.isForeign():
		return finish(resource.Conflict, fmt.Sprintf("the external resource %s now carries the mark of %s", b.Ref, s.foreignMark(s.Observed.Mark)),
			s.recheckInterval())
	case s.isReplaced():
		return s.releaseReplaced()
	case !b.Shared && s.Observed.Incarnation != "" && s.Observed.Incarnation != b.Incarnation:
		return s.updateBinding(func(b *binding.BindingSpec) { b.Incarnation = s.Observed.Incarnation })
	case s.ReservationMissing && !s.IdentityReserved && s.IdentityReservedBy != nil:
		return s.reservedBy(s.IdentityReservedBy).with(s.readyCondition())
	case s.ReservationMissing && !s.IdentityReserved:
		return Step{Do: ReserveIdentity, Ref: external.Ref(b.Ref)}
	case b.AbsentSince != nil:
		return s.updateBinding(func(b *binding.BindingSpec) { b.AbsentSince = nil })
	case s.Resource.ExternalName != b.Ref && !s.ExternalNameSet:
		return s.setExternalName()
	case s.isConnectedForOtherName():
		return Step{Do: Finish, After: time.Second} // the next reconcile connects a client for the bound name
	}
	if step, done := s.checkDuplicates(); done {
		return step
	}
	switch {
	case len(s.Observed.LateInit) > 0 && s.Resource.Policies.Allow(resource.ActionLateInitialize) && !s.LateInitialized:
		return Step{Do: LateInitialize}
	case len(s.Observed.Connection) > 0 && !s.ConnectionPublished:
		return Step{Do: PublishConnection}
	case s.OperationErr != nil:
		return Failure(s.OperationErr).with(s.readyCondition())
	case s.needsUpdate() && s.Resource.Policies.Allow(resource.ActionUpdate):
		return s.openOperationOnce(external.Update, binding.BindingUpdating).with(s.readyCondition())
	case s.Observed.UpToDate == external.CannotTell && s.Observed.Ready != external.Yes:
		return s.awaitChange()
	case s.Observed.UpToDate == external.Yes && b.Ended != nil && b.Ended.Reverted > 0:
		return s.settleContest()
	}
	after := s.pollAtRest()
	if s.Binding.Doubted != nil && s.mayDuplicate() {
		after = min(after, s.untilDuplicatesVisible())
	}
	return Step{
		Do: Finish, After: after, Ready: s.readyCondition(),
		Synced: syncedCondition(metav1.ConditionTrue, resource.ReconcileSuccess, s.driftMessage()),
	}
}

// It may differ in what the external API does not return.
func (s State) needsUpdate() bool {
	return s.Observed.UpToDate == external.No || s.isWriteOnlyChanged()
}

// The values that were sent last count. Those of an adopted resource are unknown, so they are sent once.
func (s State) isWriteOnlyChanged() bool {
	return s.WriteOnlyDigest != "" && s.WriteOnlyDigest != s.Binding.WriteOnlyDigest
}

func (s State) driftMessage() string {
	const notAllowed = "and spec.managementPolicies does not allow updating it"
	switch {
	case s.Observed.UpToDate == external.No:
		return "the external resource differs, " + notAllowed + ": " + s.Observed.Diff
	case s.isWriteOnlyChanged():
		return "values that the external API does not return can differ in the external resource, " + notAllowed
	}
	return ""
}

// isConnectedForOtherName reports whether the client was connected while the external-name annotation had another
// name, which this reconcile has set back. Its differences, and the request that follows from them, are for that name.
func (s State) isConnectedForOtherName() bool {
	return s.ExternalNameSet && s.Caps.Naming == external.CallerAssigned && s.DesiredKeyAnnotation != "" && s.DesiredKeyAnnotation != s.Binding.Ref
}

func (s State) setExternalName() Step {
	step := Step{Do: SetExternalName, Ref: external.Ref(s.Binding.Ref)}
	if was := s.Resource.ExternalName; was != "" {
		step.Event = Event{"ExternalNameRestored", fmt.Sprintf("the annotation %s was %q and is set back to %q, the bound identity",
			resource.ExternalNameAnnotation, was, s.Binding.Ref)}
	}
	return step
}

func (s State) readyCondition() Condition {
	message := s.Observed.Message
	if message == "" {
		message = s.Observed.State
	}
	switch s.Observed.Ready {
	case external.Yes:
		return Condition{Status: metav1.ConditionTrue, Reason: resource.Available}
	case external.No:
		return Condition{Status: metav1.ConditionFalse, Reason: resource.Unavailable, Message: message}
	default:
		return Condition{Status: metav1.ConditionUnknown, Reason: resource.Unavailable, Message: message}
	}
}

const (
	absentAndNotCreated  = "the external resource does not exist, and spec.managementPolicies does not allow creating it"
	unnamedAndNotCreated = "no external resource is named, and spec.managementPolicies does not allow creating one. Set the annotation " +
		resource.ExternalNameAnnotation + " to the identity of an existing one"
)

// identityNotChoosable ends the reconcile if the annotation names a resource that does not exist, and cannot be created
// because the provider assigns identities.
func (s State) identityNotChoosable() Step {
	return finish(resource.ReconcileError, fmt.Sprintf("the external resource %s does not exist, and cannot be created with this identity, because the external API assigns identities. Correct the annotation %s, or remove it to have a new one created",
		s.ref(), resource.ExternalNameAnnotation), s.Resource.PollInterval).needingAction()
}
