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

// Limits are what one call of a function may cost. Zero values stand for the defaults.
type Limits struct {
	// Time is how long a call may take: 20 s.
	Time time.Duration
	// Bytes is how large a request or a response may be: 16 MiB.
	Bytes int
}

const (
	longestCall    = 20 * time.Second
	largestMessage = 16 << 20 // bytes
)

func (l Limits) withDefaults() Limits {
	return Limits{Time: cmp.Or(l.Time, longestCall), Bytes: cmp.Or(l.Bytes, largestMessage)}
}

// Guard bounds each call of a runner. Every error that it returns is an UnknownError, a
// PanicError, an AnswerError or a CallError, and where there is none, there is a
// response.
func Guard(next Runner, limits Limits) Runner {
	return &guard{next: next, limits: limits.withDefaults()}
}

type guard struct {
	next   Runner
	limits Limits
}

func (g *guard) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	if size := proto.Size(request); size > g.limits.Bytes {
		return nil, &CallError{Code: "TooLarge", Message: fmt.Sprintf("the request has %d bytes, of %d allowed", size, g.limits.Bytes)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, g.limits.Time, &CallError{
		Code:    "DeadlineExceeded",
		Message: fmt.Sprintf("no answer within %s", g.limits.Time),
		Err:     context.DeadlineExceeded,
	})
	defer cancel()
	response, err := g.next.Run(ctx, name, request)
	switch {
	case err != nil:
		return nil, typed(ctx, err)
	case response == nil:
		return nil, &AnswerError{What: "is missing"}
	}
	if size := proto.Size(response); size > g.limits.Bytes {
		return nil, &AnswerError{What: fmt.Sprintf("has %d bytes, of %d allowed", size, g.limits.Bytes)}
	}
	return response, nil
}

// typed makes one of the promised errors of what a runner returned. Who called knows
// best why the context is done.
func typed(ctx context.Context, err error) error {
	var unknown *UnknownError
	var panicked *PanicError
	var answer *AnswerError
	var call *CallError
	switch {
	case errors.As(err, &unknown):
		return unknown
	case errors.As(err, &panicked):
		return panicked
	case errors.As(err, &answer):
		return answer
	}
	late := errors.As(context.Cause(ctx), &call)
	said := status.Convert(err)
	switch {
	case late && errors.Is(err, call):
		return call
	case late:
		// What the runner says may tell why, as of a connection that never came about.
		return &CallError{Code: call.Code, Message: shorten(call.Message + ": " + said.Message()), Err: call.Err}
	case ctx.Err() != nil:
		return &CallError{Code: "Canceled", Message: context.Cause(ctx).Error(), Err: context.Cause(ctx)}
	case errors.As(err, &call):
		return call
	default:
		return &CallError{Code: said.Code().String(), Message: shorten(said.Message()), Err: err}
	}
}
