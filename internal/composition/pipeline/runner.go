package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/espalier-dev/espalier/internal/diag"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Runner calls a function once. The request and the response are shared: no caller and no
// runner changes them after the call. Run returns an UnknownFunctionError if the runner
// doesn't know the function. A Runner is safe for concurrent use.
type Runner interface {
	Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error)
}

// FirstOf is a list of runners; the first that knows the function runs it.
type FirstOf []Runner

// Run calls the function with the first runner that knows it.
func (a FirstOf) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	for _, runner := range a {
		response, err := runner.Run(ctx, name, request)
		var unknown *UnknownFunctionError
		if errors.As(err, &unknown) {
			continue
		}
		return response, err
	}
	return nil, &UnknownFunctionError{Function: name}
}

// UnknownFunctionError is returned when no function has the name.
type UnknownFunctionError struct {
	Function string
	// Problem is why nothing serves a function that exists, with a remedy; empty if there is none of that name.
	Problem string
}

func (e *UnknownFunctionError) Error() string {
	if e.Problem != "" {
		return "the function cannot be called: " + e.Problem
	}
	return fmt.Sprintf("there is no function %q: create the Function %s, or serve it with --function %s=./program", e.Function, e.Function, e.Function)
}

// CallError is returned when a function cannot be called or doesn't respond. A later call
// may succeed; see Failure.IsTransient.
type CallError struct {
	// Code is a gRPC status code, such as Unavailable.
	Code string
	// Message contains the details, which may be the function's own text.
	Message string
	// Err is the cause within this process, if there is one, such as a deadline.
	Err error
}

func (e *CallError) Error() string {
	return fmt.Sprintf("the call failed: %s: %s", e.Code, e.Message)
}

func (e *CallError) Unwrap() error { return e.Err }

// TraceReason is the reason of the error in traces.
func (e *CallError) TraceReason() string { return e.Code }

// PanicError is returned when a function in this process panics.
type PanicError struct {
	// Value is the value of the panic.
	Value any
	// Stack is the stack trace.
	Stack []byte
}

func (e *PanicError) Error() string {
	return "the function failed with a " + diag.Panic(e.Value)
}

// ResponseError is returned when a function's response is invalid or exceeds a limit. The
// function has to be fixed.
type ResponseError struct {
	// Path is the path of the invalid field: desired.resources[db].
	Path string
	// Problem is what is wrong with it, as the rest of a sentence that the path begins.
	Problem string
}

func (e *ResponseError) Error() string {
	if e.Path == "" {
		return "the function's response " + e.Problem
	}
	return fmt.Sprintf("the function's response: %s %s", e.Path, e.Problem)
}

// maxEchoed bounds a function's text in messages, in bytes.
const maxEchoed = 4 << 10

// shorten cuts a text from outside to maxEchoed bytes, and escapes its control characters.
func shorten(s string) string { return diag.Truncate(s, maxEchoed) }
