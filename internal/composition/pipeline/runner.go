package pipeline

import (
	"context"
	"errors"
	"fmt"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Runner calls a function, once. Neither the request nor the response may be changed
// afterwards, by anybody. A function that the runner has never heard of is an
// UnknownError.
type Runner interface {
	Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error)
}

// Any asks each runner in turn and uses the first that knows the function.
type Any []Runner

// Run calls the function where it is known.
func (a Any) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	for _, runner := range a {
		response, err := runner.Run(ctx, name, request)
		var unknown *UnknownError
		if errors.As(err, &unknown) {
			continue
		}
		return response, err
	}
	return nil, &UnknownError{Function: name}
}

// UnknownError says that there is no such function.
type UnknownError struct{ Function string }

func (e *UnknownError) Error() string { return fmt.Sprintf("there is no function %q", e.Function) }

// CallError says that a function could not be called or did not answer. Calling again
// may help.
type CallError struct {
	// Code is gRPC's word for what went wrong, such as Unavailable.
	Code string
	// Message says more. It may hold a function's own words.
	Message string
	// Err is the cause if there is one in this process, such as a deadline.
	Err error
}

func (e *CallError) Error() string {
	return fmt.Sprintf("the function did not answer: %s: %s", e.Code, e.Message)
}

func (e *CallError) Unwrap() error { return e.Err }

// PanicError says that a function in this process panicked.
type PanicError struct {
	// Value is what it panicked with.
	Value any
	// Stack is where.
	Stack []byte
}

func (e *PanicError) Error() string {
	return shorten(fmt.Sprintf("the function panicked: %v", e.Value))
}

// AnswerError says that a function's answer makes no sense or is beyond a limit. Only
// its author can help.
type AnswerError struct {
	// At is the part of the answer that is meant, as a path: desired.resources[db].
	At string
	// What is wrong with it, to be read behind the path.
	What string
}

func (e *AnswerError) Error() string {
	if e.At == "" {
		return "the function's answer " + e.What
	}
	return fmt.Sprintf("the function's answer: %s %s", e.At, e.What)
}

// told is how much is repeated of what a function says, in bytes.
const told = 4 << 10

// shorten keeps a text that others wrote to a length that fits into a status.
func shorten(s string) string {
	if len(s) <= told {
		return s
	}
	end := told
	for end > 0 && s[end]&0xc0 == 0x80 { // not in the middle of a character
		end--
	}
	return s[:end] + "…"
}
