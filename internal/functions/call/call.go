// Package call holds what a function that is part of this program is given and what it
// answers, as plain values.
//
// Pure: it decides from values alone.
package call

import "time"

// Ready says whether a resource can be relied on.
type Ready int

// What a function may say of a resource's readiness.
const (
	Unspecified Ready = iota
	True
	False
)

// Resource is an object and what is known about it.
type Resource struct {
	Object            map[string]any
	ConnectionDetails map[string][]byte
	Ready             Ready
}

// State is a composite and the resources it is composed of, by their names in the
// composition.
type State struct {
	Composite Resource
	Resources map[string]Resource
}

// Request is what a function is given. It owns all of it.
type Request struct {
	Observed, Desired State
	Input, Context    map[string]any
	// Given is what is known of what the function requires.
	Given Given
}

// Severity is how bad a result is.
type Severity int

// The severities. One Fatal result means that nothing else of the answer counts.
const (
	Warning Severity = iota
	Fatal
)

// Result is something that people should be told.
type Result struct {
	Severity Severity
	Message  string
}

// Response is what a function answers.
type Response struct {
	Desired State
	Context map[string]any
	Results []Result
	// Conditions for the composite's status.
	Conditions []Condition
	// Requirements are all that the answer depends on besides the request.
	Requirements Requirements
	// TTL is how long the answer holds if nothing changes; 0 is until something does.
	TTL time.Duration
}

// Fails is the answer of a function that cannot do its work: what was asked for before,
// and why.
func Fails(r Request, message string) Response {
	return Response{Desired: r.Desired, Context: r.Context, Results: []Result{{Fatal, message}}}
}
