// Package call contains the requests and responses of built-in functions as plain values.
//
// Pure: it decides from values alone.
package call

import "time"

// Ready is the readiness of a resource.
type Ready int

// The readiness that a function can set. Unspecified leaves it to later functions.
const (
	Unspecified Ready = iota
	True
	False
)

// Resource is an object with its connection details and its readiness.
type Resource struct {
	Object            map[string]any
	ConnectionDetails map[string][]byte
	Ready             Ready
}

// State is a composite and its composed resources, by resource name.
type State struct {
	Composite Resource
	Resources map[string]Resource
}

// Request is the request of a function, which owns it and may change it.
type Request struct {
	Observed, Desired State
	Input, Context    map[string]any
	// Required contains the required resources and schemas that were read.
	Required Required
}

// Severity is the severity of a result.
type Severity int

// The severities. With a Fatal result, the rest of the response is ignored.
const (
	Warning Severity = iota
	Fatal
)

// Result is a result of a function; it becomes an event.
type Result struct {
	Severity Severity
	Message  string
}

// Response is the response of a function.
type Response struct {
	Desired State
	Context map[string]any
	Results []Result
	// Conditions for the composite's status.
	Conditions []Condition
	// Requirements are the resources and schemas that the response depends on besides the
	// observed state.
	Requirements Requirements
	// TTL is how long the response may be cached; 0 is until something changes.
	TTL time.Duration
}

// FatalResponse is a response with a Fatal result. The desired state and the context come from the request.
func FatalResponse(r Request, message string) Response {
	return Response{Desired: r.Desired, Context: r.Context, Results: []Result{{Fatal, message}}}
}
