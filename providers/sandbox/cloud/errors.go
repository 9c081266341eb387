package cloud

import (
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
	// InvalidParameter: asking again changes nothing.
	InvalidParameter Code = "InvalidParameter"
	// InvalidState: the resource, or one that it needs, is not in a state for this now.
	InvalidState Code = "InvalidState"
	// DependencyViolation: something else needs the resource.
	DependencyViolation Code = "DependencyViolation"
	// IdempotencyMismatch: the token came before, with other parameters.
	IdempotencyMismatch Code = "IdempotencyMismatch"
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
	// RetryAfter is how long to wait before asking again, 0 where the cloud can't say.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
}

// Error is the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap lets errors.Is compare with a Code.
func (e *Error) Unwrap() error { return e.Code }

func refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// codeOf is the code of an error of this package; "" for nil.
func codeOf(err error) Code {
	if e, ok := err.(*Error); ok { //nolint:errorlint // calls answer with nothing else
		return e.Code
	}
	return ""
}
