package pipeline

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Outcome is how a run of a pipeline ended. Exactly one of Desired, Failure and Waiting
// is set; what the steps said on the way there is kept in any case.
type Outcome struct {
	// Desired is what the functions want, if all of them ran.
	Desired *Desired
	// Failure is the step that failed, and why.
	Failure *Failure
	// Waiting is what a step requires and what is not known yet. The pipeline is to be
	// run again when it is.
	Waiting []Want

	// Results are what people should be told, in the order of the steps. Fatal ones are
	// not among them: the first is the Failure.
	Results []Result
	// Conditions for the composite, one of each type: a later step's replaces an
	// earlier one's.
	Conditions []Condition
	// TTL is after what time the pipeline is to be run again if nothing changes: the
	// smallest that a step asked for, or 0 if none did.
	TTL time.Duration
	// Progress of the steps that ran, the failed or waiting one included.
	Progress []Progress
}

// Desired is what the functions want.
type Desired struct {
	// Composite is the composite as far as functions want it: of its fields, the
	// status counts. It is nil if no function wants any.
	Composite map[string]any
	// Ready overrules what follows from the readiness of the resources, unless it is
	// unspecified.
	Ready fnv1.Ready
	// ConnectionDetails of the composite. They are secret.
	ConnectionDetails map[string][]byte
	// Resources by their names in the composition.
	Resources map[string]Resource
	// Context is what the last step left.
	Context map[string]any
}

// Resource is a composed resource as functions want it. It has an apiVersion and a kind;
// its name is as functions want it, or nobody has chosen one yet.
type Resource struct {
	Object map[string]any
	Ready  fnv1.Ready
}

// Result is something that people should be told.
type Result struct {
	// Step that says so.
	Step    string
	Warning bool
	// Reason is a word for programs; ComposeResources if the function has none.
	Reason  string
	Message string
	// Claim says that it is meant for the users of the claim as well.
	Claim bool
}

func (r Result) String() string { return fmt.Sprintf("Pipeline step %q: %s", r.Step, r.Message) }

// Condition is a condition of the composite's status. When it changed is not its matter.
type Condition struct {
	// Step that says so.
	Step                  string
	Type, Reason, Message string
	Status                metav1.ConditionStatus
	// Claim says that it is meant for the users of the claim as well.
	Claim bool
}

// Progress is what a step did.
type Progress struct {
	Step, Function string
	// Calls is how often its function was called, from memory or not.
	Calls int
	// Requirements of its last call, or those that it waits for. They are what the
	// outcome depends on besides the observed state; given as Expected, they save a call
	// the next time.
	Requirements *fnv1.Requirements
	// TTL of its answer, or 0.
	TTL time.Duration
}

// reasonCompose is the reason of a result that has none.
const reasonCompose = "ComposeResources"

// tell keeps what a step says, but for conditions of reserved types: functions that are in
// use set them, and have never had an effect by that.
func (o *Outcome) tell(step string, response *fnv1.RunFunctionResponse, reserved []string) {
	for _, r := range response.GetResults() {
		if r.GetSeverity() == fnv1.Severity_SEVERITY_FATAL {
			continue
		}
		result := Result{
			Step:    step,
			Warning: r.GetSeverity() != fnv1.Severity_SEVERITY_NORMAL, // one that is not known yet is worth a look
			Reason:  r.GetReason(),
			Message: shorten(r.GetMessage()),
			Claim:   r.GetTarget() == fnv1.Target_TARGET_COMPOSITE_AND_CLAIM,
		}
		if result.Reason == "" {
			result.Reason = reasonCompose
		}
		o.Results = append(o.Results, result)
	}
	for _, c := range response.GetConditions() {
		if slices.Contains(reserved, c.GetType()) {
			o.Results = append(o.Results, Result{
				Step: step, Warning: true, Reason: reasonCompose,
				Message: fmt.Sprintf("the condition %s is not for functions to set; it is left out", c.GetType()),
			})
			continue
		}
		o.set(Condition{
			Step:    step,
			Type:    c.GetType(),
			Reason:  c.GetReason(),
			Message: shorten(c.GetMessage()),
			Status:  statuses[c.GetStatus()],
			Claim:   c.GetTarget() == fnv1.Target_TARGET_COMPOSITE_AND_CLAIM,
		})
	}
	if ttl := response.GetMeta().GetTtl().AsDuration(); ttl > 0 {
		o.Progress[len(o.Progress)-1].TTL = ttl
		if o.TTL == 0 || ttl < o.TTL {
			o.TTL = ttl
		}
	}
}

// set keeps a condition, in place of one of its type.
func (o *Outcome) set(c Condition) {
	if c.Status == "" {
		c.Status = metav1.ConditionUnknown
	}
	if c.Reason == "" {
		c.Reason = "Unspecified" // Kubernetes demands one
	}
	for i := range o.Conditions {
		if o.Conditions[i].Type == c.Type {
			o.Conditions[i] = c
			return
		}
	}
	o.Conditions = append(o.Conditions, c)
}

var statuses = map[fnv1.Status]metav1.ConditionStatus{
	fnv1.Status_STATUS_CONDITION_TRUE:  metav1.ConditionTrue,
	fnv1.Status_STATUS_CONDITION_FALSE: metav1.ConditionFalse,
}
