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
	// Rest ends the pass: there is nothing to do for now.
	Rest Do = "Rest"
	// Claim puts our finalizer on the managed resource, Unclaim takes it off.
	Claim   Do = "Claim"
	Unclaim Do = "Unclaim"
	// Reserve creates the Binding with Binding; it may turn out to be Taken.
	Reserve Do = "Reserve"
	// Record stores Binding in place of what is stored, if nobody has changed that.
	Record Do = "Record"
	// Forget deletes the Binding.
	Forget Do = "Forget"
	// Observe looks at the external resource of Ref.
	Observe Do = "Observe"
	// Search finds the external resources of the mark.
	Search Do = "Search"
	// Trace finds the external resources that carry the owner's text on their mark,
	// whatever the mark is: those of a binding that was lost.
	Trace Do = "Trace"
	// Prepare freezes the request of Verb.
	Prepare Do = "Prepare"
	// Begin makes the call of Intent.
	Begin Do = "Begin"
	// Poll asks how the open operation is.
	Poll Do = "Poll"
	// ReserveID takes the assigned identity Ref for this managed resource alone.
	ReserveID Do = "ReserveID"
	// LateInitialize stores what the external API has chosen in spec.forProvider.
	LateInitialize Do = "LateInitialize"
	// Project writes the external name into the annotation.
	Project Do = "Project"
	// Publish writes the connection secret.
	Publish Do = "Publish"
)

// Step is what to do next.
type Step struct {
	Do      Do
	Binding *binding.BindingSpec
	Ref     external.Ref
	Verb    external.Verb
	Intent  *external.Intent
	// Synced and Ready are what to say; for Rest.
	Synced, Ready Said
	// After asks for another pass after so long; 0 for none. Err asks for one with
	// growing delay, and not before After.
	After time.Duration
	Err   error
	// Event tells people of something that happened; empty for nothing.
	Event Event
}

// Said is what a condition says; without a reason it stays as it was.
type Said struct {
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

// Event is something that people are told of once.
type Event struct{ Reason, Message string }

func synced(status metav1.ConditionStatus, reason, message string) Said {
	return Said{Status: status, Reason: reason, Message: message}
}

// rest ends the pass with a reason of Synced that is no error of the moment.
func rest(reason, message string, after time.Duration) Step {
	return Step{Do: Rest, Synced: synced(metav1.ConditionFalse, reason, message), After: after}
}

// Fails ends the pass with an error, after which it is repeated: not before the external
// API wants to be asked again, if it has said when.
func Fails(err error) Step {
	step := Step{Do: Rest, Synced: synced(metav1.ConditionFalse, resource.ReconcileError, err.Error()), Err: err}
	var said *external.OpError
	if errors.As(err, &said) {
		step.After = said.RetryAfter
	}
	return step.bounded()
}

// with adds what Ready is to say.
func (s Step) with(ready Said) Step {
	s.Ready = ready
	return s
}
