package cloud

import (
	"errors"
	"fmt"
	"time"
)

// Code says what kind of error the cloud has answered. The set is closed. A Code is
// an error itself, so that errors.Is(err, cloud.NotFound) asks for it.
type Code string

const (
	// NotFound: there is no such resource or operation, as far as this call sees.
	NotFound Code = "NotFound"
	// AlreadyExists: the name is taken, by a resource or by one that is gone not long
	// enough.
	AlreadyExists Code = "AlreadyExists"
	// InvalidParameter: Field says which one; asking again changes nothing.
	InvalidParameter Code = "InvalidParameter"
	// InvalidState: the resource, or one that it needs, is not in a state for this now.
	InvalidState Code = "InvalidState"
	// DependencyViolation: something else needs it as it is; Dependants says what.
	DependencyViolation Code = "DependencyViolation"
	// PreconditionFailed: the version that was named is not the current one.
	PreconditionFailed Code = "PreconditionFailed"
	// IdempotencyMismatch: the token came before, with other parameters.
	IdempotencyMismatch Code = "IdempotencyMismatch"
	// QuotaExceeded: the scope holds as many of the type as it may.
	QuotaExceeded Code = "QuotaExceeded"
	// Throttled: nothing has happened; RetryAfter says when to come again.
	Throttled Code = "Throttled"
	// Timeout and Unavailable: the answer is lost. The call may have happened, may
	// happen yet, or never.
	Timeout     Code = "Timeout"
	Unavailable Code = "Unavailable"
)

// Error is the code as a text.
func (c Code) Error() string { return string(c) }

// Error is what a call answers when it doesn't answer with a result, and why an
// operation has failed.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Field is the parameter that is refused, or that names what is missing or not
	// ready: "name", "tags", "properties.cidr".
	Field string `json:"field,omitempty"`
	// Dependants are who stands in the way of a DependencyViolation, sorted; none if
	// it is no resource, as with what a bucket holds.
	Dependants []Key `json:"dependants,omitempty"`
	// RetryAfter is how long to wait before asking again, 0 where the cloud can't say.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// Cause is ErrClosed or the error of the disk that made the cloud Unavailable, if it
	// was one of them.
	Cause error `json:"-"`
}

// Error is the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Is lets errors.Is compare with a Code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// Unwrap is the cause, if there is one.
func (e *Error) Unwrap() error { return e.Cause }

// Ambiguous says that the answer tells nothing about what has happened.
func (e *Error) Ambiguous() bool { return e.Code == Timeout || e.Code == Unavailable }

// CodeOf is the code of an error that a call has answered; "" for nil and for errors
// of other origin.
func CodeOf(err error) Code {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// invalid refuses a parameter.
func invalid(field, format string, args ...any) *Error {
	return &Error{Code: InvalidParameter, Field: field, Message: field + ": " + fmt.Sprintf(format, args...)}
}
