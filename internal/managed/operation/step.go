package operation

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Do is what a step does.
type Do string

// Steps.
const (
	// Finish ends the reconcile: there is nothing to do for now.
	Finish Do = "Finish"
	// AddFinalizer adds our finalizer to the managed resource, RemoveFinalizer removes it.
	AddFinalizer    Do = "AddFinalizer"
	RemoveFinalizer Do = "RemoveFinalizer"
	// CreateBinding creates the Binding, which reserves its key. If another managed resource
	// has reserved it, State.ReservedBy is set.
	CreateBinding Do = "CreateBinding"
	// UpdateBinding replaces the stored Binding, unless it was changed after it was read.
	UpdateBinding Do = "UpdateBinding"
	// DeleteBinding deletes the Binding.
	DeleteBinding Do = "DeleteBinding"
	// Observe reads the external resource Ref.
	Observe Do = "Observe"
	// FindByMark lists the external resources that carry the mark.
	FindByMark Do = "FindByMark"
	// FindByOwner lists the external resources that carry the owner on their mark, whatever the mark's ID: the
	// resources of a lost binding.
	FindByOwner Do = "FindByOwner"
	// Prepare computes the request of Verb, which is then stored and sent unchanged.
	Prepare Do = "Prepare"
	// Begin makes the call of Intent.
	Begin Do = "Begin"
	// Poll asks for the state of the open operation.
	Poll Do = "Poll"
	// ReserveIdentity reserves the assigned identity Ref for this managed resource.
	ReserveIdentity Do = "ReserveIdentity"
	// LateInitialize stores values that the external API has chosen in spec.forProvider.
	LateInitialize Do = "LateInitialize"
	// SetExternalName writes the external name into the annotation.
	SetExternalName Do = "SetExternalName"
	// PublishConnection writes the connection secret.
	PublishConnection Do = "PublishConnection"
)

// Step is what to do next.
type Step struct {
	Do      Do
	Binding *binding.BindingSpec
	Ref     external.Ref
	Verb    external.Verb
	Intent  *external.Intent
	// Synced and Ready are the conditions that Finish sets.
	Synced, Ready Condition
	// After requests another reconcile after that time; 0 for none. Err requests one with
	// backoff, but not before After.
	After time.Duration
	Err   error
	// NeedsAction says that the result stays the same until a user changes the managed resource, whatever the reason of Synced says.
	NeedsAction bool
	// Event is recorded once the step is done; none without a reason.
	Event Event
}

func (s Step) onlyReads() bool {
	switch s.Do {
	case Finish, Observe, FindByMark, FindByOwner, Prepare, Poll:
		return true
	default:
		return false
	}
}

// Condition is the content of a condition. Without a reason, the condition stays as it is.
type Condition struct {
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

// Event is the content of a Kubernetes event.
type Event struct{ Reason, Message string }

func syncedCondition(status metav1.ConditionStatus, reason, message string) Condition {
	return Condition{Status: status, Reason: reason, Message: message}
}

// finish ends the reconcile with Synced=False for a reason that backoff does not help with.
func finish(reason, message string, after time.Duration) Step {
	return Step{Do: Finish, Synced: syncedCondition(metav1.ConditionFalse, reason, message), After: after}
}

// Wait ends the reconcile until an event of what the message names, which is watched.
func Wait(message string) Step { return finish(resource.ReconcileError, message, 0).bounded() }

// Failure ends the reconcile with an error, so it is repeated with backoff, but not before the external API's
// RetryAfter. What the configuration does not allow is no failure: backoff does not help.
func Failure(err error) Step {
	var denied *external.NotAllowedError
	if errors.As(err, &denied) {
		return finish(resource.NotAllowed, denied.Message, recheckNotAllowed).bounded()
	}
	step := Step{Do: Finish, Synced: syncedCondition(metav1.ConditionFalse, resource.ReconcileError, err.Error()), Err: err}
	var opErr *external.OpError
	if errors.As(err, &opErr) {
		step.After = opErr.RetryAfter
	}
	return step.bounded()
}

// recheckNotAllowed is how often to check again what the configuration does not allow. A
// change of the configuration is an event; what is observed on the external API is not.
const recheckNotAllowed = time.Minute

func (s Step) needingAction() Step {
	s.NeedsAction = true
	return s
}

func (s Step) with(ready Condition) Step {
	s.Ready = ready
	return s
}
