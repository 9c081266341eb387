package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// CallLimits limit one call of a function. Zero values stand for the defaults.
type CallLimits struct {
	// Timeout is how long a call may take. The default is 20 s.
	Timeout time.Duration
	// MaxBytes is how large a request or a response may be. The default is 16 MiB.
	MaxBytes int
}

const (
	defaultCallDeadline = 20 * time.Second
	defaultSizeLimit    = 16 << 20 // bytes
)

func (l CallLimits) withDefaults() CallLimits {
	return CallLimits{Timeout: cmp.Or(l.Timeout, defaultCallDeadline), MaxBytes: cmp.Or(l.MaxBytes, defaultSizeLimit)}
}

// Guard enforces limits on each call of a runner. Each error that it returns is an
// UnknownFunctionError, a PanicError, a ResponseError or a CallError. Without an error
// there is a response.
func Guard(next Runner, limits CallLimits) Runner {
	return &guard{next: next, limits: limits.withDefaults()}
}

type guard struct {
	next   Runner
	limits CallLimits
}

func (g *guard) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	if size := proto.Size(request); size > g.limits.MaxBytes {
		return nil, &CallError{Code: "TooLarge", Message: fmt.Sprintf("the request has %d bytes, over the limit of %d", size, g.limits.MaxBytes)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, g.limits.Timeout, &CallError{
		Code:    "DeadlineExceeded",
		Message: fmt.Sprintf("no response within %s", g.limits.Timeout),
		Err:     context.DeadlineExceeded,
	})
	defer cancel()
	response, err := g.next.Run(ctx, name, request)
	switch {
	case err != nil:
		return nil, toGuardError(ctx, err)
	case response == nil:
		return nil, &ResponseError{Problem: "is missing"}
	}
	if size := proto.Size(response); size > g.limits.MaxBytes {
		return nil, &ResponseError{Problem: fmt.Sprintf("has %d bytes, over the limit of %d", size, g.limits.MaxBytes)}
	}
	return response, nil
}

// toGuardError turns a runner's error into one of the types that Guard promises. If the
// context is done, its cause goes before the runner's error.
func toGuardError(ctx context.Context, err error) error {
	var unknown *UnknownFunctionError
	var panicked *PanicError
	var response *ResponseError
	var call *CallError
	switch {
	case errors.As(err, &unknown):
		return unknown
	case errors.As(err, &panicked):
		return panicked
	case errors.As(err, &response):
		return response
	}
	timedOut := errors.As(context.Cause(ctx), &call)
	grpcStatus := status.Convert(err)
	switch {
	case timedOut && errors.Is(err, call):
		return call
	case timedOut:
		// The runner's error may name the cause, for example that no connection was made.
		return &CallError{Code: call.Code, Message: shorten(call.Message + ": " + grpcStatus.Message()), Err: call.Err}
	case ctx.Err() != nil:
		return &CallError{Code: "Canceled", Message: context.Cause(ctx).Error(), Err: context.Cause(ctx)}
	case errors.As(err, &call):
		return call
	default:
		return &CallError{Code: grpcStatus.Code().String(), Message: shorten(grpcStatus.Message()), Err: err}
	}
}
