package pipeline

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/diag"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Result is the result of one run of a pipeline. Exactly one of Desired, Failure and
// Pending is set. Results, Conditions, TTL and Progress are set in all three cases, from
// the steps that ran.
type Result struct {
	// Desired is the desired state, if all steps succeeded.
	Desired *Desired
	// Failure is the step that failed, with its error.
	Failure *Failure
	// Pending are the requirements of a step that the Fetcher has not read yet. Run the
	// pipeline again once it has.
	Pending []PendingRequirement

	// Results are the results of the functions, in the order of the steps, without Fatal
	// ones: the first Fatal result is the Failure.
	Results []FunctionResult
	// Conditions for the composite, one of each type: a later step replaces the condition
	// of an earlier one.
	Conditions []Condition
	// TTL is how long until the pipeline is to run again even if nothing changes: the
	// shortest TTL of all steps, or 0 if no step set one.
	TTL time.Duration
	// Progress of the steps that ran, including the failed or pending one.
	Progress []Progress
}

// Desired is the desired state after the last step.
type Desired struct {
	// Composite contains the fields of the composite that functions set. Only its status is used. It is nil if no
	// function sets any field.
	Composite map[string]any
	// Ready overrides the readiness that follows from the resources, unless it is
	// unspecified.
	Ready fnv1.Ready
	// ConnectionDetails of the composite. They are secret: never log them.
	ConnectionDetails map[string][]byte
	// Resources by their names in the composition.
	Resources map[string]Resource
	// Context is the pipeline's context after the last step.
	Context map[string]any
}

// Resource is a desired composed resource. It has an apiVersion and a kind. Its name is
// empty if no function sets one.
type Resource struct {
	Object map[string]any
	Ready  fnv1.Ready
}

// FunctionResult is a result that a function returned. It becomes an event.
type FunctionResult struct {
	// Step is the step that returned it.
	Step    string
	Warning bool
	// Reason is the reason of the event; ComposeResources if the function sets none.
	Reason  string
	Message string
	// ForClaim says that the claim gets the event as well.
	ForClaim bool
}

func (r FunctionResult) String() string {
	return fmt.Sprintf("Pipeline step %q: %s", r.Step, r.Message)
}

// Condition is a condition for the composite's status. It has no transition time.
type Condition struct {
	// Step is the step that set it.
	Step                  string
	Type, Reason, Message string
	Status                metav1.ConditionStatus
	// ForClaim says that the claim shows the condition as well.
	ForClaim bool
}

// Progress is the progress of one step.
type Progress struct {
	Step, Function string
	// Calls is how often the function was called; cached responses count.
	Calls int
	// Requirements of the last call, or those that are pending. Besides the observed
	// state, the result depends on them. Passed as LastRequirements, they save a call in
	// the next run.
	Requirements *fnv1.Requirements
	// TTL of the response, or 0.
	TTL time.Duration
}

// maxReason is the API server's limit, in bytes.
const maxReason = 128

const defaultReason = "ComposeResources"

// record adds a step's results, conditions and TTL. Conditions of reserved types are
// dropped with a Warning and don't fail the step: existing functions set them, without
// effect in Crossplane too.
func (o *Result) record(step string, response *fnv1.RunFunctionResponse, reserved []string) {
	for _, r := range response.GetResults() {
		if r.GetSeverity() == fnv1.Severity_SEVERITY_FATAL {
			continue
		}
		result := FunctionResult{
			Step:     step,
			Warning:  r.GetSeverity() != fnv1.Severity_SEVERITY_NORMAL, // an unknown severity counts as a Warning
			Reason:   diag.Truncate(r.GetReason(), maxReason),
			Message:  shorten(r.GetMessage()),
			ForClaim: r.GetTarget() == fnv1.Target_TARGET_COMPOSITE_AND_CLAIM,
		}
		if result.Reason == "" {
			result.Reason = defaultReason
		}
		o.Results = append(o.Results, result)
	}
	for _, c := range response.GetConditions() {
		if slices.Contains(reserved, c.GetType()) {
			o.Results = append(o.Results, FunctionResult{
				Step: step, Warning: true, Reason: defaultReason,
				Message: fmt.Sprintf("condition %s is reserved; functions cannot set it", c.GetType()),
			})
			continue
		}
		o.setCondition(Condition{
			Step:     step,
			Type:     shorten(c.GetType()),
			Reason:   shorten(c.GetReason()),
			Message:  shorten(c.GetMessage()),
			Status:   conditionStatuses[c.GetStatus()],
			ForClaim: c.GetTarget() == fnv1.Target_TARGET_COMPOSITE_AND_CLAIM,
		})
	}
	if ttl := response.GetMeta().GetTtl().AsDuration(); ttl > 0 {
		o.Progress[len(o.Progress)-1].TTL = ttl
		if o.TTL == 0 || ttl < o.TTL {
			o.TTL = ttl
		}
	}
}

func (o *Result) setCondition(c Condition) {
	if c.Status == "" {
		c.Status = metav1.ConditionUnknown
	}
	if c.Reason == "" {
		c.Reason = "Unspecified" // Kubernetes requires one
	}
	for i := range o.Conditions {
		if o.Conditions[i].Type == c.Type {
			o.Conditions[i] = c
			return
		}
	}
	o.Conditions = append(o.Conditions, c)
}

var conditionStatuses = map[fnv1.Status]metav1.ConditionStatus{
	fnv1.Status_STATUS_CONDITION_TRUE:  metav1.ConditionTrue,
	fnv1.Status_STATUS_CONDITION_FALSE: metav1.ConditionFalse,
}
