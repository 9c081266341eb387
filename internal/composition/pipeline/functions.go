package pipeline

import (
	"context"
	"runtime/debug"
	"sync"

	"google.golang.org/protobuf/proto"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Func is a function in Go. It owns its request and may change it.
type Func = func(ctx context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error)

// Functions runs functions in this process. The zero value has no functions. It is safe
// for concurrent use.
type Functions struct {
	mu        sync.RWMutex
	functions map[string]Func
}

// Register adds a function, or replaces the one of that name; nil removes it.
func (f *Functions) Register(name string, function Func) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.functions == nil {
		f.functions = map[string]Func{}
	}
	if function == nil {
		delete(f.functions, name)
		return
	}
	f.functions[name] = function
}

// Run calls the function with a copy of the request. If the function panics, Run returns a
// PanicError. If the context is done first, Run returns the cause; the function's
// goroutine runs on until it returns, and its response is dropped.
func (f *Functions) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	f.mu.RLock()
	function := f.functions[name]
	f.mu.RUnlock()
	if function == nil {
		return nil, &UnknownFunctionError{Function: name}
	}
	type outcome struct {
		response *fnv1.RunFunctionResponse
		err      error
	}
	done := make(chan outcome, 1)
	own := proto.CloneOf(request)
	go func() {
		var out outcome
		defer func() { done <- out }()
		defer recoverPanic(&out.err)
		out.response, out.err = function(ctx, own)
	}()
	select {
	case out := <-done:
		return out.response, out.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func recoverPanic(err *error) {
	if value := recover(); value != nil {
		*err = &PanicError{Value: value, Stack: debug.Stack()}
	}
}
