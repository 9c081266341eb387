package cloud

import (
	"fmt"
	"time"
)

// Code is the code of an error. It is an error itself, for errors.Is(err, cloud.NotFound).
type Code string

const (
	// NotFound: the resource or operation does not exist, or is not visible yet.
	NotFound Code = "NotFound"
	// AlreadyExists: a resource has the name, or had it until recently.
	AlreadyExists Code = "AlreadyExists"
	// InvalidParameter: the request is invalid; a repetition fails, too.
	InvalidParameter Code = "InvalidParameter"
	// InvalidState: the state of the resource, or of one that it refers to, does not allow the
	// operation.
	InvalidState Code = "InvalidState"
	// DependencyViolation: another resource refers to the resource.
	DependencyViolation Code = "DependencyViolation"
	// IdempotencyMismatch: the token was used before with another request.
	IdempotencyMismatch Code = "IdempotencyMismatch"
	// Throttled: the call had no effect; RetryAfter is when to retry.
	Throttled Code = "Throttled"
	// Timeout and Unavailable: the outcome is unknown. The call may have an effect later.
	Timeout     Code = "Timeout"
	Unavailable Code = "Unavailable"
)

// Error returns the code.
func (c Code) Error() string { return string(c) }

// Error is the error of a call or of an operation.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// RetryAfter is how long to wait before a retry; 0 if that is unknown.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
}

// Error returns the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap lets errors.Is compare with a Code.
func (e *Error) Unwrap() error { return e.Code }

func errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// codeOf returns the code of an error of this package; "" for nil.
func codeOf(err error) Code {
	if e, ok := err.(*Error); ok { //nolint:errorlint // calls return no other type
		return e.Code
	}
	return ""
}
