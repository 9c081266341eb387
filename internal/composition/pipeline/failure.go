package pipeline

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/espalier-dev/espalier/internal/diag"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Failure is the error of a step. Err is a FatalError, a ResponseError, an UnstableError,
// a StepError, a FetchError, an UnknownFunctionError, a PanicError or a CallError. If the
// runner has no Guard, Err may be any error of the runner.
type Failure struct {
	Step, Function string
	Err            error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("step %q (function %s): %v", f.Step, f.Function, f.Err)
}

func (f *Failure) Unwrap() error { return f.Err }

// IsTransient reports whether the same run may succeed later without a change of its input: the network failed, for
// example, or the function's program had exited.
func (f *Failure) IsTransient() bool {
	var call *CallError
	if errors.As(f.Err, &call) {
		return !permanentCodes[call.Code] && !call.isForSize()
	}
	var fetch *FetchError
	return errors.As(f.Err, &fetch)
}

// permanentCodes are the codes of calls that fail again until the input changes.
var permanentCodes = map[string]bool{"TooLarge": true, "InvalidArgument": true, "FailedPrecondition": true, "Unimplemented": true}

// isForSize reports whether gRPC refused a message for its size, on either side. Other calls that exhaust a resource
// have the same code, but it may be available again later.
func (e *CallError) isForSize() bool {
	return e.Code == codes.ResourceExhausted.String() && strings.Contains(e.Message, "message larger than max")
}

// FatalError is a Fatal result of a function.
type FatalError struct {
	Reason, Message string
	// ForClaim says that the claim gets the event as well.
	ForClaim bool
}

func (e *FatalError) Error() string { return "the function failed: " + e.Message }

// fatal returns the first Fatal result of a response as a FatalError, or nil.
func fatal(response *fnv1.RunFunctionResponse) error {
	for _, r := range response.GetResults() {
		if r.GetSeverity() == fnv1.Severity_SEVERITY_FATAL {
			reason := r.GetReason()
			if reason == "" {
				reason = defaultReason
			}
			return &FatalError{
				Reason:   diag.Truncate(reason, maxReason),
				Message:  shorten(r.GetMessage()),
				ForClaim: r.GetTarget() == fnv1.Target_TARGET_COMPOSITE_AND_CLAIM,
			}
		}
	}
	return nil
}

// UnstableError is returned when a function's requirements differ after each call.
type UnstableError struct {
	// Calls is how often the function was called.
	Calls int
	// Before are the requirements that the last call was given, Last the ones that it returned.
	Before, Last *fnv1.Requirements
}

func (e *UnstableError) Error() string {
	return fmt.Sprintf("the function's requirements did not stabilize after %d calls: they changed from %s to %s", e.Calls, requirementKeys(e.Before),
		requirementKeys(e.Last))
}

// StepError is returned when the composition's step itself is invalid.
type StepError struct {
	// Path is the path of the invalid field of the step.
	Path string
	// Problem is what is wrong with it, as the rest of a sentence that the path begins.
	Problem string
}

func (e *StepError) Error() string { return "the step's " + e.Path + " " + e.Problem }

// FetchError is returned when a required resource or schema cannot be read.
type FetchError struct {
	// Key is the key of the requirement.
	Key string
	Err error
}

func (e *FetchError) Error() string {
	return shorten(fmt.Sprintf("requirement %q cannot be read: %v", e.Key, e.Err))
}

func (e *FetchError) Unwrap() error { return e.Err }
