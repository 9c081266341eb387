package awscloud

import (
	"net/http"
	"slices"
	"time"
)

// Fault is something that goes wrong with calls.
type Fault struct {
	// Operation, Type and Identifier select calls; empty ones select all. Operations of native APIs have their native
	// names, such as DescribeVpcs; those of REST APIs are a method and a path, such as "GET /clusters/web".
	Operation, Type, Identifier string
	// Skip is how many of the selected calls go well before, and Times how many fail then; 0 stands for
	// one, a negative number for all.
	Skip, Times int

	// Delay is how long the call waits before anything else.
	Delay time.Duration
	// LoseRequest closes the connection before the call has an effect, LoseAnswer after it, without an answer.
	LoseRequest, LoseAnswer bool
	// Error is the answer instead of an effect.
	Error *Error
	// Outcome is what becomes of a request that the call begins.
	Outcome *Outcome

	hits int
}

// Error is an answer with an error.
type Error struct {
	// Status is the HTTP status; 0 stands for 400.
	Status int
	// Code is the name of the exception, such as ThrottlingException.
	Code, Message string
}

// Errors that tests often need.
var (
	Throttling = &Error{Code: "ThrottlingException", Message: "Rate exceeded"}
	// ThrottlingAsGeneral is how users have seen handlers pass on the throttling of their service.
	ThrottlingAsGeneral = &Error{Code: "GeneralServiceException",
		Message: "Rate exceeded (Service: Ec2, Status Code: 503)"}
	Internal = &Error{Status: http.StatusInternalServerError,
		Code: "ServiceInternalErrorException", Message: "Internal failure"}
	Unavailable = &Error{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable",
		Message: "Service Unavailable"}
)

// Outcome is how a request of the Cloud Control API ends.
type Outcome struct {
	// Code is the ErrorCode, such as NotStabilized.
	Code, Message string
	// Effect leaves the effect of the request in the cloud, although it fails: a creation leaves its resource.
	Effect bool
	// HideIdentifier leaves the identifier out of the events of a creation.
	HideIdentifier bool
}

// Inject adds a fault. The oldest fault that selects a call counts, if it is not used up.
func (c *Cloud) Inject(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &f)
}

// ClearFaults removes all faults.
func (c *Cloud) ClearFaults() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// Faults returns how many faults are not used up.
func (c *Cloud) Faults() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.faults)
}

// faultFor returns the fault of a call, or an empty one.
func (c *Cloud) faultFor(call Call) Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, f := range c.faults {
		if !f.selects(call) {
			continue
		}
		if f.hits++; f.hits <= f.Skip {
			continue
		}
		if f.Times >= 0 && f.hits >= f.Skip+max(f.Times, 1) {
			c.faults = slices.Delete(c.faults, i, i+1)
		}
		return *f
	}
	return Fault{}
}

func (f *Fault) selects(call Call) bool {
	return (f.Operation == "" || f.Operation == call.Operation) && (f.Type == "" || f.Type == call.Type) &&
		(f.Identifier == "" || f.Identifier == call.Identifier)
}
