package pipeline

import (
	"errors"
	"fmt"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Failure says which step failed and why. Err is a FatalError, an AnswerError, an
// UnstableError, a StepError, a FetchError, an UnknownError, a PanicError or a CallError; or, if the
// runner has no Guard, what that returned.
type Failure struct {
	Step, Function string
	Err            error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("step %q (function %s): %v", f.Step, f.Function, f.Err)
}

func (f *Failure) Unwrap() error { return f.Err }

// Passing says whether the same run may succeed later although nothing that it depends
// on has changed: it was a matter of the network or of a program that had ended.
func (f *Failure) Passing() bool {
	var call *CallError
	if errors.As(f.Err, &call) {
		return !lasting[call.Code]
	}
	var fetch *FetchError
	return errors.As(f.Err, &fetch)
}

// lasting are the codes of calls that fail again until somebody changes something.
var lasting = map[string]bool{"TooLarge": true, "InvalidArgument": true, "FailedPrecondition": true, "Unimplemented": true}

// FatalError is a function's word that it cannot do its work.
type FatalError struct {
	Reason, Message string
	// Claim says that it is meant for the users of the claim as well.
	Claim bool
}

func (e *FatalError) Error() string { return "the function failed: " + e.Message }

// fatal returns the first fatal result of an answer, or nil.
func fatal(response *fnv1.RunFunctionResponse) error {
	for _, r := range response.GetResults() {
		if r.GetSeverity() == fnv1.Severity_SEVERITY_FATAL {
			reason := r.GetReason()
			if reason == "" {
				reason = reasonCompose
			}
			return &FatalError{
				Reason:  reason,
				Message: shorten(r.GetMessage()),
				Claim:   r.GetTarget() == fnv1.Target_TARGET_COMPOSITE_AND_CLAIM,
			}
		}
	}
	return nil
}

// UnstableError says that a function kept requiring something else.
type UnstableError struct {
	// Calls is how often it was called.
	Calls int
	// Before is what it was given, Last what it then required.
	Before, Last *fnv1.Requirements
}

func (e *UnstableError) Error() string {
	return fmt.Sprintf("the function still requires something else after %d calls: it was given %s, then required %s", e.Calls, keys(e.Before), keys(e.Last))
}

// StepError says that a step itself makes no sense, whatever its function.
type StepError struct {
	// At is the part of the step that is meant, as a path.
	At string
	// What is wrong with it, to be read behind the path.
	What string
}

func (e *StepError) Error() string { return "the step's " + e.At + " " + e.What }

// FetchError says that what a step requires could not be read.
type FetchError struct {
	// Key of the requirement.
	Key string
	Err error
}

func (e *FetchError) Error() string {
	return shorten(fmt.Sprintf("requirement %q cannot be read: %v", e.Key, e.Err))
}

func (e *FetchError) Unwrap() error { return e.Err }
